/* The component type `source`. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stripline.h>

/* Makes the component type, which the caller frees. */
stripline_status source_new(stripline_component **component, stripline_error **error);

#endif
