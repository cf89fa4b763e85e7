package crashimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// marksName is the name of the file with the marks, in the recorded directory.
const marksName = "marks"

// Marks returns a function that appends a mark to a file in dir. The recorded program calls this
// function. A mark is a line with a statement that is true once the line is written, such as
// "update 7 was acknowledged". Each image has the marks that were written before its crash.
func Marks(dir string) (mark func(format string, args ...any) error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, marksName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return func(format string, args ...any) error {
		_, err := f.WriteString(fmt.Sprintf(format, args...) + "\n") // one system call, so that the lines of different threads do not mix
		return err
	}, nil
}

// Marks returns all marks that the program has written.
func (r *Recording) Marks() (lines []string) {
	for _, op := range r.ops {
		if op.kind == mark {
			lines = append(lines, string(op.data))
		}
	}
	return lines
}

// ErrUnavailable means that programs cannot be traced on this machine, because strace is not
// installed or not allowed.
var ErrUnavailable = errors.New("programs cannot be traced here; install strace, and allow it to trace")

// calls are the system calls that change a directory or its files, or make changes durable.
const calls = "openat,open,creat,openat2,write,pwrite64,writev,pwritev,pwritev2,lseek,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,sync_file_range,msync,sync,syncfs,rename,renameat,renameat2,link,linkat,unlink,unlinkat," +
	"copy_file_range,sendfile,splice,mkdir,mkdirat,rmdir,symlink,symlinkat"

// A Recording has the operations of a program on the files of one directory.
type Recording struct {
	before map[string][]byte // content of the files at the beginning, by name
	ops    []operation       // in the order in which they began
}

// Record runs a program with args, and with env added to the environment of this process. Record returns
// the operations of the program on the files of the directory dir. dir must be an absolute path and
// must not contain directories. The initial content of dir is treated as durable. The error is
// ErrUnavailable, the error of the program with its output, or an error about a system call that
// the model does not support.
func Record(ctx context.Context, dir string, env []string, program string, args ...string) (*Recording, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, ErrUnavailable
	}
	r := &Recording{}
	if r.before, err = filesOf(dir); err != nil {
		return nil, err
	}
	trace, err := os.CreateTemp("", "crashimage-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(trace.Name()) //nolint:errcheck // a temporary file that cannot be removed does no harm
	defer trace.Close()
	const whole = "33554432" // maximum number of bytes of a write that strace prints
	cmd := exec.CommandContext(ctx, strace, append([]string{
		"-f", "-qq", "-y", "-xx", "-s", whole, "-o", trace.Name(), "-e", "trace=" + calls, "--", program,
	}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "strace: ") {
			return nil, fmt.Errorf("%w: %s", ErrUnavailable, out)
		}
		return nil, fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	p := newParser(dir)
	lines := bufio.NewReaderSize(trace, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if line == "" {
			break
		}
		if err == nil {
			err = p.line(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", n, err)
		}
	}
	r.ops = p.ops
	return r, nil
}

// filesOf returns the content of the files in dir, by name.
func filesOf(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}
