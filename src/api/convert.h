// A model in another form: diffusers' layout, one file, quantised.
#pragma once

#include "convert/convert.h"
