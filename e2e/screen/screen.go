// Package screen runs programs with a pseudo-terminal as output, so that tests see the text that a user sees.
package screen

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Show runs cmd with its standard output on a pseudo-terminal of this size, and returns everything that cmd writes to
// it, with \n instead of \r\n. Show returns an error if cmd fails or the terminal cannot be opened.
func Show(cmd *exec.Cmd, rows, columns uint16) (string, error) {
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer ours.Close()
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return "", fmt.Errorf("unlock the terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return "", fmt.Errorf("ask for the number of the terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		return "", fmt.Errorf("set the size of the terminal: %w", err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	cmd.Stdout = theirs
	err = cmd.Start()
	_ = theirs.Close() // the process has its own copy of the descriptor
	if err != nil {
		return "", err
	}
	shown, err := io.ReadAll(ours)
	if errors.Is(err, unix.EIO) { // when the process has closed the terminal, reading returns EIO
		err = nil
	}
	return strings.ReplaceAll(string(shown), "\r\n", "\n"), errors.Join(err, cmd.Wait())
}
