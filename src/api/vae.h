// A model's VAE alone: frames to latents and back.
#pragma once

#include "stages/vae_run.h"
