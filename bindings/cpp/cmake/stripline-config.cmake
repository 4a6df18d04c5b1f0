# Stripline for C++, as packaging/cpp-install has installed it:
#
#     find_package(stripline REQUIRED)
#     target_link_libraries(radar PRIVATE stripline::stripline)
#
# stripline::stripline is the shared library, stripline::static the one that needs nothing where
# the program runs.
get_filename_component(stripline_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(stripline_file include/stripline.hpp include/stripline.h lib/libstripline.so lib/libstripline.a)
    if(NOT EXISTS "${stripline_prefix}/${stripline_file}")
        set(stripline_FOUND FALSE)
        set(stripline_NOT_FOUND_MESSAGE "${stripline_prefix}/${stripline_file} is missing: run packaging/cpp-install again")
        return()
    endif()
endforeach()
if(NOT TARGET stripline::stripline)
    add_library(stripline::stripline INTERFACE IMPORTED)
    target_link_libraries(stripline::stripline INTERFACE "${stripline_prefix}/lib/libstripline.so")
    add_library(stripline::static INTERFACE IMPORTED)
    target_link_libraries(
        stripline::static INTERFACE "${stripline_prefix}/lib/libstripline.a" gcc_s util rt pthread m dl)
    foreach(stripline_target stripline::stripline stripline::static)
        target_compile_features(${stripline_target} INTERFACE cxx_std_17)
        target_include_directories(${stripline_target} INTERFACE "${stripline_prefix}/include")
    endforeach()
endif()
