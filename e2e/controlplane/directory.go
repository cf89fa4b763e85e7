package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// directory is the data directory of one control plane. Only one process can have it open.
type directory struct {
	path      string
	ephemeral bool
	lock      *os.File // the lock is held as long as the file is open; the kernel releases it at the end of the process
}

// openDirectory creates the directory if necessary, locks it for this process, and removes DIR/ready. If another
// process has locked the directory, openDirectory returns an error.
func openDirectory(a arguments) (*directory, error) {
	path, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for the data: %w", err)
	}
	if a.ephemeral {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			return nil, fmt.Errorf("%s is not empty: --ephemeral removes the directory on stop, so give it a new one", path)
		}
	}
	d := &directory{path: path, ephemeral: a.ephemeral}
	if err := d.take(); err != nil {
		return nil, err
	}
	if err := d.remove("ready"); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// file returns the path of the file called name.
func (d *directory) file(name string) string { return filepath.Join(d.path, name) }

func (d *directory) take() error {
	lock, err := os.OpenFile(d.file("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(lock.Name())
		lock.Close()
		return fmt.Errorf("another control plane runs on %s (process %s): stop it or choose another --dir",
			d.path, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		lock.Close()
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	d.lock = lock
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintln(lock, os.Getpid())
	return err
}

// close releases the lock of the directory. If the directory is ephemeral and the argument well is true, close also
// removes the directory. After an error of the control plane, well is false, so that the log can still be read.
func (d *directory) close(well bool) error {
	var err error
	if d.ephemeral && well {
		err = os.RemoveAll(d.path)
	}
	return errors.Join(err, d.lock.Close())
}

func (d *directory) remove(name string) error {
	err := os.Remove(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write replaces the file called name atomically.
func (d *directory) write(name string, data []byte) error {
	part := d.file("." + name)
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, d.file(name))
}

// keep returns the content of the file called name. If the file does not exist, keep calls create and writes the result
// to the file.
func (d *directory) keep(name string, create func() ([]byte, error)) ([]byte, error) {
	data, err := os.ReadFile(d.file(name))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = create(); err != nil {
		return nil, err
	}
	return data, d.write(name, data)
}

// redirect sends the standard error of the process, such as log lines and panics, to DIR/log until
// restore is called.
func (d *directory) redirect() (restore func(), err error) {
	if err := os.Rename(d.file("log"), d.file("log.1")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	log, err := os.OpenFile(d.file("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	stderr := int(os.Stderr.Fd())
	before, err := unix.FcntlInt(os.Stderr.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keep standard error: %w", err)
	}
	if err := unix.Dup3(int(log.Fd()), stderr, 0); err != nil {
		return nil, fmt.Errorf("send standard error to %s: %w", log.Name(), err)
	}
	return func() { _ = unix.Dup3(before, stderr, 0) }, nil
}

// listen opens the port of the API server on the loopback interface. It uses the port of the previous process if that
// is free, and another port otherwise.
func (d *directory) listen() (net.Listener, error) {
	data, err := os.ReadFile(d.file("port"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	last, _ := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 16) // last is 0 if data is not a number
	var listener net.Listener
	if last != 0 {
		listener, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", last))
	}
	if last == 0 || err != nil {
		listener, err = listenAnywhere()
	}
	if err != nil {
		return nil, fmt.Errorf("open a port for the API server: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err == nil {
		err = d.write("port", []byte(port+"\n"))
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// listenAnywhere opens a free port outside of the range from which the kernel assigns ports to connections. Such a port
// is likely to be free for the next process, too. The kernel also never assigns it to a client. If a client connected
// to the port while no process listens on it, and the kernel assigned the same port to the client, the client would be
// connected to itself. If listenAnywhere finds no such port, it opens any free port.
func listenAnywhere() (net.Listener, error) {
	const least = 10_000
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	first := 0
	if err == nil {
		_, err = fmt.Sscan(string(text), &first)
	}
	for range 100 {
		if err != nil || first <= least {
			break
		}
		port := least + rand.IntN(first-least) //nolint:gosec // no secret
		if listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return listener, nil
		}
	}
	return net.Listen("tcp4", "127.0.0.1:0")
}
