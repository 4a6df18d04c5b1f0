/* A C program with links that forks as C programs do: the child returns from `main`, exits, or
 * becomes a daemon. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Functions of the library beside it, which is written in Rust. */
extern void *link_open(const char *transport);
extern int link_pass(void *link);   /* Sends a packet and receives it. Returns 0 if it is the right one. */
extern int link_is_forked(void *link); /* Returns 1 if sending and receiving report the fork. */
extern int link_close(void *link);  /* Drops the link. Returns 0 if the end came once, after the last packet. */
extern void link_drop(void *link);

static void await(pid_t child, const char *what)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("%s: status %d\n", what, status);
        exit(1);
    }
}

int main(int count, char **words)
{
    void *link = count > 1 ? link_open(words[1]) : NULL;
    if (!link)
        return 2;
    for (int turn = 0; turn < 8; turn++) {
        pid_t child = fork();
        if (child == 0) {
            switch (turn % 4) {
            case 0:
                link_drop(link);
                return 0;
            case 1:
                _exit(0);
            case 2:
                execl("/bin/true", "true", (char *)NULL);
                _exit(3);
            default:
                /* A daemon: the first child ends, the second has no terminal. */
                if (!link_is_forked(link))
                    _exit(4);
                setsid();
                pid_t second = fork();
                if (second != 0) {
                    int status = 0;
                    waitpid(second, &status, 0);
                    exit(status != 0);
                }
                link_drop(link);
                void *own = link_open(words[1]);
                exit(!own || link_pass(own) || link_close(own));
            }
        }
        await(child, "a child");
        if (link_pass(link))
            return 5;
    }
    return link_close(link);
}
