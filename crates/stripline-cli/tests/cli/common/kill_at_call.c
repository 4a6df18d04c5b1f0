/* A library for LD_PRELOAD that kills its process at the N-th system call that concerns a folder.
 *
 * STRIPLINE_KILL_FOLDER is the folder and STRIPLINE_KILL_AT the number N; 0 means no kill. A write
 * counts twice: before it, and when half of its bytes are in the file. With STRIPLINE_KILL_LOG,
 * each sync of a file in the folder adds a line with the size of the file to the log. System calls
 * that the program makes without the C library are not counted. Those calls lock a file, create a
 * file without a name (a kill leaves nothing of it), or give that file its name as their last
 * call. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int calls;

static int is_inside(const char *path)
{
    const char *folder = getenv("STRIPLINE_KILL_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

/* Returns whether `fd` is a file of the folder, also before the file has a name. */
static int is_counted(int fd)
{
    char name[64], path[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return readlink(name, path, sizeof path - 1) > 0 && is_inside(path);
}

/* Counts a call, and returns whether the process is to be killed at it. */
static int is_last(void)
{
    const char *at = getenv("STRIPLINE_KILL_AT");
    return __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == (at ? atoi(at) : 0);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void reach(int is_ours)
{
    if (is_ours && is_last())
        die();
}

static int open_at(int folder, const char *path, int flags, va_list rest)
{
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    reach(is_inside(path));
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        int fd = open_at(AT_FDCWD, path, flags, rest);                                                                 \
        va_end(rest);                                                                                                  \
        return fd;                                                                                                     \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    int name(int folder, const char *path, int flags, ...)                                                             \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        int fd = open_at(folder, path, flags, rest);                                                                   \
        va_end(rest);                                                                                                  \
        return fd;                                                                                                     \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd)
{
    reach(is_counted(fd));
    return (int)syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    if (is_counted(fd)) {
        reach(1);
        if (is_last()) {
            syscall(SYS_write, fd, bytes, count / 2);
            die();
        }
    }
    return syscall(SYS_write, fd, bytes, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    reach(is_counted(fd));
    return syscall(SYS_writev, fd, parts, count);
}

static ssize_t write_at(int fd, const void *bytes, size_t count, off_t place)
{
    if (is_counted(fd)) {
        reach(1);
        if (is_last()) {
            syscall(SYS_pwrite64, fd, bytes, count / 2, place);
            die();
        }
    }
    return syscall(SYS_pwrite64, fd, bytes, count, place);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t place)
{
    return write_at(fd, bytes, count, place);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t place)
{
    return write_at(fd, bytes, count, (off_t)place);
}

static int sync_with(long call, int fd)
{
    reach(is_counted(fd));
    int result = (int)syscall(call, fd);
    const char *log = getenv("STRIPLINE_KILL_LOG");
    struct stat file;
    if (log && is_counted(fd) && fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
        char name[64], path[4096] = "", line[4200];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (readlink(name, path, sizeof path - 1) < 0)
            return result;
        int length = snprintf(line, sizeof line, "%lld %s\n", (long long)file.st_size, path);
        int out = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (out >= 0 && syscall(SYS_write, out, line, length) == length)
            syscall(SYS_close, out);
    }
    return result;
}

int fsync(int fd)
{
    return sync_with(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_with(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t length)
{
    reach(is_counted(fd));
    return (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    reach(is_counted(fd));
    return (int)syscall(SYS_ftruncate, fd, length);
}

off_t lseek(int fd, off_t place, int whence)
{
    reach(is_counted(fd));
    return syscall(SYS_lseek, fd, place, whence);
}

off64_t lseek64(int fd, off64_t place, int whence)
{
    reach(is_counted(fd));
    return syscall(SYS_lseek, fd, place, whence);
}

int rename(const char *from, const char *to)
{
    reach(is_inside(from) || is_inside(to));
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int link(const char *from, const char *to)
{
    reach(is_inside(to));
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    reach(is_inside(path));
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
    reach(is_inside(path));
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
