package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// serve serves the port for health and metrics, the debug socket, the debug port and the web page,
// until the returned function is called. serve listens on all ports before it serves the first one.
// So when /healthz responds, the operator already listens on its other ports. The debug port and the
// web page are not served if they are disabled, or if serve cannot listen on their addresses.
func (o *operator) serve(ctx context.Context, group *errgroup.Group) (stop func(), err error) {
	public, err := listenPublic(ctx, net.JoinHostPort(o.settings.ListenAddress, strconv.Itoa(o.settings.ListenPort)))
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w; choose another port with --prometheus-listen-port", err)
	}
	private, err := listenSocket(ctx, o.settings.DebugSocket)
	if err != nil {
		return nil, errors.Join(err, public.Close())
	}
	errorLog := stdlog.New(lines{o.log.With().Str("source", "http").Logger()}, "", 0)
	var servers []*http.Server
	begin := func(l net.Listener, server *http.Server) {
		server.ErrorLog = errorLog
		servers = append(servers, server)
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve at %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	debug := o.listenDebug(ctx)
	web, webServer := listenWeb(ctx, &o.settings.Web, &o.log, o.webPage)
	begin(public, &http.Server{Handler: o.publicRoutes(), ReadTimeout: 90 * time.Second, WriteTimeout: 90 * time.Second})
	begin(private, &http.Server{Handler: o.debugAPI().Routes(), ReadHeaderTimeout: 10 * time.Second})
	if debug != nil {
		begin(debug, &http.Server{Handler: o.debugAPI().Pages(), ReadHeaderTimeout: 10 * time.Second})
	}
	if web != nil {
		begin(web, webServer)
	}
	return func() {
		for _, s := range servers {
			_ = s.Close() // the process is about to end, so an error does not matter
		}
	}, nil
}

// portWait is the maximum time that a start waits for its port. If the previous process was killed while it forked a
// hook, the child process listens on all ports of the previous process until it executes the hook.
const portWait = lockWait

// listenPublic listens on address. If the port is in use, listenPublic waits until the port is free, for at most
// portWait. It polls, because no system call waits for a port.
func listenPublic(ctx context.Context, address string) (net.Listener, error) {
	const pause = 20 * time.Millisecond
	for wait := portWait; ; wait -= pause {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || wait <= 0 {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// listenDebug listens for the debug pages. listenDebug returns nil if the debug pages are disabled, or
// if it cannot listen, for example because the port is in use. The operator starts anyway, because the
// debug socket serves the same pages.
func (o *operator) listenDebug(ctx context.Context) net.Listener {
	address, warning, err := o.settings.DebugPort()
	if warning != "" {
		o.log.Warn().Msg(warning)
	}
	if err != nil || address == "" {
		return nil // an invalid address cannot occur: Settings.Check rejects it
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		o.log.Warn().Err(err).Msg("the debug pages are served on the debug socket only; choose another address with --debug-http-addr")
		return nil
	}
	return l
}

// listenSocket listens on path. listenSocket replaces a socket on which nobody listens.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the debug socket: %w; name another with --debug-unix-socket", err)
	}
	if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path); err == nil {
		_ = c.Close() // the connection proves that another process listens on path
		return nil, fmt.Errorf("another operator listens on the debug socket %s: name another with --debug-unix-socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old debug socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the debug socket: %w; name another with --debug-unix-socket", err)
	}
	return l, os.Chmod(path, 0o600)
}
