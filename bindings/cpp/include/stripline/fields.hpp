/// @file
/// The macro that repeats another one for each field of a structure, up to 64.
#ifndef STRIPLINE_FIELDS_HPP
#define STRIPLINE_FIELDS_HPP

/// @cond
#define STRIPLINE_JOIN_(a, b) a##b
#define STRIPLINE_JOIN(a, b) STRIPLINE_JOIN_(a, b)

// The 65th argument, after the fields, is their number.
#define STRIPLINE_PICK( \
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, \
    a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, \
    a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, \
    a57, a58, a59, a60, a61, a62, a63, a64, count, ...) count
#define STRIPLINE_COUNT(...) \
    STRIPLINE_PICK( \
        __VA_ARGS__, \
        64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, \
        42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, \
        20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

#define STRIPLINE_EACH(use, type, ...) \
    STRIPLINE_JOIN(STRIPLINE_EACH_, STRIPLINE_COUNT(__VA_ARGS__))(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_1(use, type, a) use(type, a)
#define STRIPLINE_EACH_2(use, type, a, ...) use(type, a) STRIPLINE_EACH_1(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_3(use, type, a, ...) use(type, a) STRIPLINE_EACH_2(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_4(use, type, a, ...) use(type, a) STRIPLINE_EACH_3(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_5(use, type, a, ...) use(type, a) STRIPLINE_EACH_4(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_6(use, type, a, ...) use(type, a) STRIPLINE_EACH_5(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_7(use, type, a, ...) use(type, a) STRIPLINE_EACH_6(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_8(use, type, a, ...) use(type, a) STRIPLINE_EACH_7(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_9(use, type, a, ...) use(type, a) STRIPLINE_EACH_8(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_10(use, type, a, ...) use(type, a) STRIPLINE_EACH_9(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_11(use, type, a, ...) use(type, a) STRIPLINE_EACH_10(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_12(use, type, a, ...) use(type, a) STRIPLINE_EACH_11(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_13(use, type, a, ...) use(type, a) STRIPLINE_EACH_12(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_14(use, type, a, ...) use(type, a) STRIPLINE_EACH_13(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_15(use, type, a, ...) use(type, a) STRIPLINE_EACH_14(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_16(use, type, a, ...) use(type, a) STRIPLINE_EACH_15(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_17(use, type, a, ...) use(type, a) STRIPLINE_EACH_16(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_18(use, type, a, ...) use(type, a) STRIPLINE_EACH_17(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_19(use, type, a, ...) use(type, a) STRIPLINE_EACH_18(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_20(use, type, a, ...) use(type, a) STRIPLINE_EACH_19(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_21(use, type, a, ...) use(type, a) STRIPLINE_EACH_20(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_22(use, type, a, ...) use(type, a) STRIPLINE_EACH_21(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_23(use, type, a, ...) use(type, a) STRIPLINE_EACH_22(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_24(use, type, a, ...) use(type, a) STRIPLINE_EACH_23(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_25(use, type, a, ...) use(type, a) STRIPLINE_EACH_24(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_26(use, type, a, ...) use(type, a) STRIPLINE_EACH_25(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_27(use, type, a, ...) use(type, a) STRIPLINE_EACH_26(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_28(use, type, a, ...) use(type, a) STRIPLINE_EACH_27(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_29(use, type, a, ...) use(type, a) STRIPLINE_EACH_28(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_30(use, type, a, ...) use(type, a) STRIPLINE_EACH_29(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_31(use, type, a, ...) use(type, a) STRIPLINE_EACH_30(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_32(use, type, a, ...) use(type, a) STRIPLINE_EACH_31(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_33(use, type, a, ...) use(type, a) STRIPLINE_EACH_32(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_34(use, type, a, ...) use(type, a) STRIPLINE_EACH_33(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_35(use, type, a, ...) use(type, a) STRIPLINE_EACH_34(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_36(use, type, a, ...) use(type, a) STRIPLINE_EACH_35(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_37(use, type, a, ...) use(type, a) STRIPLINE_EACH_36(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_38(use, type, a, ...) use(type, a) STRIPLINE_EACH_37(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_39(use, type, a, ...) use(type, a) STRIPLINE_EACH_38(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_40(use, type, a, ...) use(type, a) STRIPLINE_EACH_39(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_41(use, type, a, ...) use(type, a) STRIPLINE_EACH_40(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_42(use, type, a, ...) use(type, a) STRIPLINE_EACH_41(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_43(use, type, a, ...) use(type, a) STRIPLINE_EACH_42(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_44(use, type, a, ...) use(type, a) STRIPLINE_EACH_43(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_45(use, type, a, ...) use(type, a) STRIPLINE_EACH_44(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_46(use, type, a, ...) use(type, a) STRIPLINE_EACH_45(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_47(use, type, a, ...) use(type, a) STRIPLINE_EACH_46(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_48(use, type, a, ...) use(type, a) STRIPLINE_EACH_47(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_49(use, type, a, ...) use(type, a) STRIPLINE_EACH_48(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_50(use, type, a, ...) use(type, a) STRIPLINE_EACH_49(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_51(use, type, a, ...) use(type, a) STRIPLINE_EACH_50(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_52(use, type, a, ...) use(type, a) STRIPLINE_EACH_51(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_53(use, type, a, ...) use(type, a) STRIPLINE_EACH_52(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_54(use, type, a, ...) use(type, a) STRIPLINE_EACH_53(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_55(use, type, a, ...) use(type, a) STRIPLINE_EACH_54(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_56(use, type, a, ...) use(type, a) STRIPLINE_EACH_55(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_57(use, type, a, ...) use(type, a) STRIPLINE_EACH_56(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_58(use, type, a, ...) use(type, a) STRIPLINE_EACH_57(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_59(use, type, a, ...) use(type, a) STRIPLINE_EACH_58(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_60(use, type, a, ...) use(type, a) STRIPLINE_EACH_59(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_61(use, type, a, ...) use(type, a) STRIPLINE_EACH_60(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_62(use, type, a, ...) use(type, a) STRIPLINE_EACH_61(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_63(use, type, a, ...) use(type, a) STRIPLINE_EACH_62(use, type, __VA_ARGS__)
#define STRIPLINE_EACH_64(use, type, a, ...) use(type, a) STRIPLINE_EACH_63(use, type, __VA_ARGS__)
/// @endcond

#endif
