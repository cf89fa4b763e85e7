package hook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// storeVariable marks the processes started for a store; what they start in turn inherits it.
const storeVariable = "ADDON_OPERATOR_STORE_ID"

// KillLeftovers kills every process that carries the store's id in its environment, except this one, and what those
// start meanwhile, until there is none. It returns the process ids it killed when all of them are gone. The caller runs
// no hook of the store at the time.
//
// A process whose environment may not be read runs as another user and is none of ours.
func KillLeftovers(storeID string) (killed []int, err error) {
	if storeID == "" {
		return nil, errors.New("kill leftover hooks: no store id was given")
	}
	mark := []byte(storeVariable + "=" + storeID)
	for {
		found, err := marked(mark)
		if err != nil {
			return killed, fmt.Errorf("kill leftover hooks: %w", err)
		}
		if len(found) == 0 {
			return killed, nil
		}
		for _, pid := range found {
			was, err := kill(pid, mark)
			if err != nil {
				return killed, fmt.Errorf("kill leftover hook, process %d: %w", pid, err)
			}
			if was && !slices.Contains(killed, pid) {
				killed = append(killed, pid)
			}
		}
	}
}

// marked lists the processes whose environment holds mark.
func marked(mark []byte) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && pid != os.Getpid() && carries(pid, mark) {
			found = append(found, pid)
		}
	}
	return found, nil
}

// carries tells whether a live process has mark in its environment; one that has ended has none.
func carries(pid int, mark []byte) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(variable []byte) bool {
		return bytes.Equal(variable, mark)
	})
}

// kill ends a process that carries mark and waits until it is gone. The number alone could mean another process by now,
// a process descriptor cannot.
func kill(pid int, mark []byte) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("pidfd_open: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // it holds nothing
	if !carries(pid, mark) {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("SIGKILL: %w", err)
	}
	const patience = 5000 // milliseconds
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("wait for its end: %w", err)
		case n == 0:
			return false, errors.New("it is still there 5 s after SIGKILL; it may hang in the kernel, restart the node if it stays")
		default:
			return true, nil
		}
	}
}
