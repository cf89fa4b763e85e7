// Package cputime measures CPU time, which depends little on other load of the machine.
package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Used returns the CPU time of this process so far, in user and system mode.
func Used() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // the call can fail only with invalid arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
