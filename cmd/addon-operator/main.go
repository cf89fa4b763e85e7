// Command addon-operator keeps a cluster's addons installed and configured. It runs hooks and modules that are written
// for flant/addon-operator. Each step of a graph is a durable task, and a restarted process resumes the pending tasks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // crontabs can name time zones, and a small image has no time zone data

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/store"
)

// version is the version of the operator, which the linker sets.
var version = "dev"

// The exit codes with a defined meaning.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitAttention = 3  // something needs attention; only status, diagnose and "workflow inspect --exit-code" end with this code
	exitUntested  = 4  // the command "test" could not test the modules
	exitLocked    = 10 // the store is in use by another process
	exitCorrupt   = 11 // the store is damaged, or the file is not a store
	exitNewer     = 12 // the store was written by a newer version
	exitFull      = 13 // the disk is full
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		signal.Stop(signals) // after this call, a second signal ends the process at once
		cancel()
	}()
	err := newRoot().ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, "addon-operator:", err)
	}
	if errors.Is(err, store.ErrLocked) {
		fmt.Fprintln(os.Stderr, "To see what the running operator does, use: addon-operator status")
	}
	os.Exit(exitCode(err))
}

// exitCode returns the exit code for err.
func exitCode(err error) int {
	coded, invalid := (*codedError)(nil), (*settings.Error)(nil)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &invalid):
		return exitUsage
	case errors.Is(err, store.ErrLocked):
		return exitLocked
	case errors.Is(err, store.ErrNewer):
		return exitNewer
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrNotStore):
		return exitCorrupt
	case errors.Is(err, store.ErrFull), errors.Is(err, syscall.ENOSPC):
		return exitFull
	default:
		return exitFailed
	}
}

// A codedError is an error with its own exit code. If the text of err is empty, nothing is printed,
// because the output already contains the message.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }
