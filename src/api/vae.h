// A model's VAE alone: frames to latents and back.
#pragma once

#include "pipelines/vae_run.h"
