package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/store"
)

// localSocket is the debug socket of an operator that "make run" has started, relative to the
// working directory.
const localSocket = ".run/debug.socket"

// A source answers the routes of the debug socket. A source is a running operator, or a server in
// this process that reads the store of a stopped operator.
type source struct {
	client http.Client
	// live is true if the source is a running operator.
	live bool
	// about is a text that describes the source and, if the source is a store file, the age of its data.
	about string
	// damage returns an error if a request has found damage in the store file. If the source is a running operator,
	// damage returns nil, because the operator reports damage itself.
	damage func() error
	close  func() error
}

// sourceFlags are the flags that select a source.
type sourceFlags struct {
	socket, store string
	showSecrets   bool
	utc           bool
	modules       string
	global        string
	verify        bool // verify the whole file of --store before anything is printed
}

// declare declares the flags on cmd and all its subcommands.
func (f *sourceFlags) declare(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.socket, "debug-unix-socket", "", "socket of the running operator [$"+settings.SocketVariable+", ./"+localSocket+", "+settings.DefaultSocket+"]")
	flags.StringVar(&f.store, "store", "", "store file of a stopped operator, or snapshot, to read instead of connecting to a running operator")
	flags.BoolVar(&f.showSecrets, "show-secrets", false, "show the data of Secrets and the settings that are masked by default: those named like password, secret, token, credentials or key")
	flags.BoolVar(&f.utc, "utc", false, "show times in UTC instead of local time")
	flags.StringVar(&f.global, "global-hooks-dir", "", "with --store: directory of global hooks, for the schemas of global values [$ADDON_OPERATOR_GLOBAL_HOOKS_DIR, $GLOBAL_HOOKS_DIR]")
	flags.StringVar(&f.modules, "modules-dir", "", "with --store: directories of modules, for their values files and schemas [$ADDON_OPERATOR_MODULES_DIR, $MODULES_DIR]")
}

// open opens the source that the flags and the environment select. The caller must close it.
func (f *sourceFlags) open(ctx context.Context) (*source, error) {
	if f.store != "" {
		return f.openStore()
	}
	var tried []string
	for _, path := range f.sockets() {
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", path)
		if err == nil {
			_ = conn.Close() // each request opens its own connection
			return liveSource(path), nil
		}
		tried = append(tried, "  "+describeDial(path, err))
	}
	return nil, fmt.Errorf("no running operator answers:\n%s\nread the store of a stopped one with --store FILE (in its pod: %s), name the socket of a running one with "+
		"--debug-unix-socket, or start one", strings.Join(tried, "\n"), settings.DefaultStore)
}

// zone returns the time zone of printed times.
func (f *sourceFlags) zone() *time.Location {
	if f.utc {
		return time.UTC
	}
	return time.Local
}

// sockets returns the debug sockets to try. If a flag or a variable names a socket, sockets returns
// only this socket.
func (f *sourceFlags) sockets() []string {
	if f.socket != "" {
		return []string{f.socket}
	}
	if path := os.Getenv(settings.SocketVariable); path != "" {
		return []string{path}
	}
	return []string{localSocket, settings.DefaultSocket}
}

func describeDial(path string, err error) string {
	why := err.Error()
	switch {
	case errors.Is(err, os.ErrNotExist):
		why = "there is no such socket"
	case errors.Is(err, os.ErrPermission):
		why = "permission denied: use the operator's user"
	case strings.Contains(why, "connection refused"):
		why = "nobody listens; the operator has ended"
	}
	return path + ": " + why
}

func liveSource(path string) *source {
	s := &source{live: true, about: "operator at " + path, damage: func() error { return nil }}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	s.client.Transport = transport
	s.close = func() error { transport.CloseIdleConnections(); return nil }
	return s
}

// openStore returns a source that reads the store file of --store.
func (f *sourceFlags) openStore() (*source, error) {
	info, err := os.Stat(f.store)
	if err != nil {
		return nil, &codedError{exitUsage, fmt.Errorf("--store: %w", err)}
	}
	open := store.OpenToQuery
	if f.verify {
		open = store.OpenReadOnly
	}
	db, err := open(f.store, store.Options{Clock: time.Now})
	if err != nil {
		return nil, err
	}
	l := &debugapi.API{DB: db, Now: time.Now, Path: f.store, Values: f.values, Changes: new(debugapi.ChangeFeed)}
	pipe := newPipe()
	server := &http.Server{Handler: l.Routes(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(pipe) }() // the goroutine ends when the source is closed
	s := &source{about: fmt.Sprintf("store %s as of %s (%s ago), epoch %d", f.store,
		info.ModTime().In(f.zone()).Format(time.RFC3339), debugapi.Short(time.Since(info.ModTime())), db.Epoch())}
	s.client.Transport = &http.Transport{DialContext: pipe.dial}
	s.damage = db.Err
	s.close = func() error { return errors.Join(server.Close(), db.Close()) }
	return s, nil
}

// values returns the values and schemas in the files of the module directories.
func (f *sourceFlags) values() (*desired.Values, error) {
	dirs := cmp.Or(f.modules, os.Getenv("ADDON_OPERATOR_MODULES_DIR"), os.Getenv("MODULES_DIR"))
	if dirs == "" {
		return nil, debugapi.BadRequest("the store holds no values files: name the directories of the modules with --modules-dir")
	}
	files := scan.New(scan.Options{
		ModulesDirs: strings.Split(dirs, ":"), AddonModulesDir: addonModulesDir(f.store), UnnumberedOrder: 1,
		GlobalHooksDir: cmp.Or(f.global, os.Getenv("ADDON_OPERATOR_GLOBAL_HOOKS_DIR"), os.Getenv("GLOBAL_HOOKS_DIR")),
	}, nil)
	_, err := files.Scan()
	return files.Values, err
}

// get sends a GET request for path, and writes the response to w.
func (s *source) get(ctx context.Context, path string, query url.Values, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	return s.send(request, w)
}

// post sends a form to path and writes the response to w.
func (s *source) post(ctx context.Context, path string, form url.Values, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://operator"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(request, w)
}

func (s *source) send(request *http.Request, w io.Writer) error {
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", s.about, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return cmp.Or[error](s.damage(), &answerError{response.StatusCode, strings.TrimSpace(string(text))})
	}
	_, err = io.Copy(w, response.Body)
	return cmp.Or(s.damage(), err)
}

// An answerError is the answer to a request that failed: its HTTP status and its text.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string { return e.text }

// pipe is a net.Listener whose connections are in the memory of this process.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Accept waits for the next call of dial, and returns the server's end of the connection.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Close must be called only once, which http.Server guarantees.
func (p *pipe) Close() error {
	close(p.done)
	return nil
}

// Addr implements net.Listener.
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
