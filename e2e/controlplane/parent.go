package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// untilParentEnds returns a context that ends when ctx ends, or when the parent process has ended for any reason.
//
// A parent-death signal would be wrong: the kernel sends it when the *thread* that started this process ends, and in a
// Go program that thread can end while the program continues.
func untilParentEnds(ctx context.Context) (context.Context, error) {
	parent := os.Getppid()
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return nil, fmt.Errorf("watch parent process %d, as --with-parent asks: %w", parent, err)
	}
	if os.Getppid() != parent {
		return nil, fmt.Errorf("parent process %d ended before the control plane started", parent)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} // a pidfd is readable once its process has ended
		for {
			if _, err := unix.Poll(poll, -1); !errors.Is(err, unix.EINTR) {
				cancel(fmt.Errorf("parent process %d ended", parent))
				return
			}
		}
	}()
	return ctx, nil
}
