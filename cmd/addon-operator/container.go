package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// containerFile returns the path of the file with the identity of a container. The process that uses
// the store with this ID writes the file.
func containerFile(tempDir, storeID string) containerMark {
	return containerMark(filepath.Join(tempDir, "container-"+storeID))
}

// A containerMark is the path of the file that records the identity of a container.
type containerMark string

// inNewContainer reports whether the previous process of the store ran in another container. inNewContainer returns
// true if the file is missing, because the files of --tmp-dir are deleted with the container or the pod.
func (m containerMark) inNewContainer() (bool, error) {
	last, err := os.ReadFile(string(m))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("identity of the last container: %w; make the directory of --tmp-dir readable", err)
	}
	return string(last) != containerIdentity(), nil
}

// write writes the identity of this container for the next process. write replaces the file as a whole, because the
// next process would treat an incomplete identity as the identity of another container.
func (m containerMark) write() error {
	next := string(m) + ".new"
	err := os.WriteFile(next, []byte(containerIdentity()), 0o600)
	if err == nil {
		err = os.Rename(next, string(m))
	}
	if err != nil {
		return fmt.Errorf("cannot write the identity of the container: %w; make the directory of --tmp-dir writable, or free space", err)
	}
	return nil
}

// containerIdentity returns a text that differs between containers: the boot ID of the machine, the
// start time of the first process in the container, and the mount of the container's root file
// system. The files of --tmp-dir alone do not identify a container, because an emptyDir volume
// outlives the container. Unreadable parts are omitted.
func containerIdentity() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	stat, _ := os.ReadFile("/proc/1/stat")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Join([]string{strings.TrimSpace(string(boot)), startTime(stat), rootMount(mounts)}, "\n") + "\n"
}

// startTime returns the start time of a process from stat, the content of /proc/PID/stat; empty if
// stat is too short.
func startTime(stat []byte) string {
	// The name of the program, in parentheses, can contain spaces. The start time is the 20th field after the name.
	const field = 19
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= field {
		return ""
	}
	return fields[field]
}

// rootMount returns the entry of the root file system in /proc/PID/mountinfo: its device and
// options, which name the directories of the container's overlay.
func rootMount(mounts []byte) string {
	const device, mountPoint = 2, 4
	root := ""
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > mountPoint && fields[mountPoint] == "/" {
			root = strings.Join(fields[device:], " ") // the last mount on / hides earlier mounts
		}
	}
	return root
}
