// All kernels in one unit, for nvcc.
#include "gpu/destuff.hpp"
#include "gpu/fetch.hpp"
#include "gpu/order.hpp"
#include "gpu/resample_floats.hpp"
#include "gpu/steps.hpp"
#include "gpu/sums.hpp"
#include "gpu/tiles.hpp"
