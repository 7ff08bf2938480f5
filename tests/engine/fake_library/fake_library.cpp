// A shared library for test_library.cpp, which copies it to wherever a library is to be found.
extern "C" int fake_answer() { return 42; }
