/* The component type `filter`. */
#ifndef FILTER_H
#define FILTER_H

#include <stripline.h>

/* Makes the component type, which the caller frees. */
stripline_status filter_new(stripline_component **component, stripline_error **error);

#endif
