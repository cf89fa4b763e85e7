package hook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// storeVariable is an environment variable of each hook process. Its value is the ID of the operator's store. Child
// processes of hooks inherit it.
const storeVariable = "ADDON_OPERATOR_STORE_ID"

// longestExec is the maximum time for which KillLeftovers waits for processes that are in the system call execve. If a
// process needs longer for execve, for example because of a network disk that does not respond, the operator has most
// likely not started it.
const longestExec = 5 * time.Second

// KillLeftovers kills all processes that have the ID of the store in their environment, except this process. These
// processes may start other processes in the meantime, so KillLeftovers repeats the search until it finds none. When it
// returns, the killed processes have ended; the result contains their process IDs. The caller must not run hooks of the
// store at the same time.
//
// KillLeftovers skips a process if it cannot read the environment of the process. In most cases, such a process has
// ended or belongs to another user.
func KillLeftovers(storeID string) (killed []int, err error) {
	if storeID == "" {
		return nil, errors.New("kill leftover hooks: no store id was given")
	}
	mark := []byte(storeVariable + "=" + storeID)
	for waited := time.Duration(0); ; {
		found, starting, err := marked(mark)
		switch {
		case err != nil:
			return killed, fmt.Errorf("kill leftover hooks: %w", err)
		case len(found) == 0 && starting && waited < longestExec:
			const pause = time.Millisecond // poll, because nothing reports the end of execve in another process
			time.Sleep(pause)
			waited += pause
			continue
		case len(found) == 0:
			return killed, nil
		}
		ended, err := killAll(found, mark)
		for _, pid := range ended {
			if !slices.Contains(killed, pid) {
				killed = append(killed, pid)
			}
		}
		if err != nil {
			return killed, fmt.Errorf("kill leftover hooks: %w", err)
		}
	}
}

// marked returns the IDs of the processes whose environment contains mark, which has the form NAME=VALUE. If there are
// none, the result starting says whether the environment of another process may be incomplete because the process is in
// execve.
func marked(mark []byte) (found []int, starting bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	others := map[int]int{} // from process ID to the size of the environment
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		switch {
		case err != nil:
		case holds(environ, mark):
			found = append(found, pid)
		default:
			others[pid] = len(environ)
		}
	}
	if len(found) > 0 {
		return found, false, nil
	}
	for pid, read := range others {
		if startsProgram(pid, read) {
			return nil, true, nil
		}
	}
	return nil, false, nil
}

// holds reports whether environ, the content of a file /proc/PID/environ, contains the variable mark. The file of an
// ended process is empty.
func holds(environ, mark []byte) bool {
	return slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(variable []byte) bool {
		return bytes.Equal(variable, mark)
	})
}

// startsProgram reports whether a process was in execve when its environment was read. The argument read is the size of
// the read environment in bytes. During execve, the environment may be incomplete: the memory of the old program is
// gone, and the memory of the new program may still be empty. On a slow disk, execve takes long. See proc_pid_stat(5)
// for the format of /proc/PID/stat.
func startsProgram(pid, read int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	name := bytes.LastIndexByte(stat, ')') // end of field 2, the name, which may itself contain spaces and parentheses
	if err != nil || name < 0 {
		return false
	}
	const state, flags, codeStart, environStart, environEnd = 0, 6, 23, 47, 48 // indexes of the fields 3, 9, 26, 50 and 51
	fields := strings.Fields(string(stat[name+1:]))
	if len(fields) <= environEnd || strings.ContainsAny(fields[state], "ZXx") {
		return false
	}
	number := func(field int) uint64 {
		n, _ := strconv.ParseUint(fields[field], 10, 64) // the kernel writes only numbers
		return n
	}
	const kernelThread = 0x00200000
	return number(flags)&kernelThread == 0 &&
		(number(codeStart) == 0 || number(environEnd)-number(environStart) != uint64(read))
}

// killAll kills the processes pids whose environment contains mark, and waits until they have ended. It returns the
// process IDs of those that have ended. It sends SIGKILL to all processes before it waits, so that they end at the same
// time. If it cannot kill one of them, it still kills the others.
func killAll(pids []int, mark []byte) (ended []int, err error) {
	var failed []error
	var dying []target
	for _, pid := range pids {
		t, ok, err := kill(pid, mark)
		if err != nil {
			failed = append(failed, fmt.Errorf("process %d: %w", pid, err))
		}
		if ok {
			dying = append(dying, t)
		}
	}
	for _, t := range dying {
		if err := t.await(); err != nil {
			failed = append(failed, fmt.Errorf("process %d: %w", t.pid, err))
		} else {
			ended = append(ended, t.pid)
		}
		t.close()
	}
	return ended, errors.Join(failed...)
}

// A target is a process that was killed. The field fd is a pidfd, which always refers to this process. The kernel can
// give the process ID to another process after the end of this one.
type target struct{ pid, fd int }

// kill kills the process pid if its environment contains mark. If kill returns true, the caller must close t. If the
// process does not exist, or if its environment cannot be read or does not contain mark, kill returns false without an
// error.
func kill(pid int, mark []byte) (t target, ok bool, err error) {
	t.pid = pid
	t.fd, err = unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		// Before Linux 6.16, the error is EINVAL if the process has ended while its ID is still that of a process
		// group.
		return t, false, nil
	case err != nil:
		return t, false, fmt.Errorf("pidfd_open: %w", err)
	}
	defer func() {
		if !ok {
			t.close()
		}
	}()
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || !holds(environ, mark) {
		return t, false, nil
	}
	if err := unix.PidfdSendSignal(t.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return t, false, fmt.Errorf("SIGKILL: %w", err)
	}
	return t, true, nil
}

func (t target) close() { _ = unix.Close(t.fd) } // fails only if fd is not open

// await waits until the process has ended. If it still runs after 5 s, await returns an error.
func (t target) await() error {
	const patience = 5000 // milliseconds
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}, patience)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for its end: %w", err)
		case n == 0:
			return errors.New("it still runs 5 s after SIGKILL; it may hang in the kernel; restart the node if it does not end")
		default:
			return nil
		}
	}
}
