package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

var pageCommands = map[string]command{
	"page":        lookAtPage,
	"expect-page": expectPage,
	"page-has":    pageHas,
}

// page returns the body of the operator's response for path. It requests paths that begin with /queue on the debug
// socket, and all other paths on the HTTP port. If the status is not 200, page also returns an error.
func (w *environment) page(path string) (string, error) {
	if w.operator == nil {
		return "", errors.New("the operator does not run")
	}
	client := http.Client{Timeout: patience}
	if strings.HasPrefix(path, "/queue") {
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.path("socket"))
		}}
		defer client.CloseIdleConnections()
	}
	answer, err := client.Get("http://" + w.operator.addr + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// lookAtPage implements the command "page PATH". It prints the operator's response for PATH.
func lookAtPage(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("page PATH")
	}
	text, err := w.page(args[0])
	say(ts, text)
	return err
}

// expectPage implements the command "expect-page PATH FILE". It waits until the operator's response for PATH equals
// FILE, apart from comments, empty lines and indents.
func expectPage(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("expect-page PATH FILE")
	}
	want := withoutComments(ts.ReadFile(args[1]))
	return wait(func() error {
		text, err := w.page(args[0])
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, withoutComments(text)); diff != "" {
			return fmt.Errorf("the page differs (-want +got):\n%s", diff)
		}
		return nil
	})
}

// withoutComments returns the lines of text that are neither empty nor comments, without indents.
func withoutComments(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// pageHas implements the command "page-has PATH REGEXP". It waits until the operator's response for PATH matches
// REGEXP. The response may have any status code.
func pageHas(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("page-has PATH REGEXP")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	if err != nil {
		return err
	}
	return wait(func() error {
		text, err := w.page(args[0])
		if text != "" && want.MatchString(text) {
			return nil
		}
		if err == nil {
			err = errors.New("nothing on the page matches")
		}
		return err
	})
}
