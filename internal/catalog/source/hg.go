package source

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// An hgRepository clones a Mercurial repository with the program hg, which must be installed, into
// a temporary directory.
//
// If the URL has the scheme https or http, hg sends its requests only to a relay on the loopback address, and the
// relay forwards them with the HTTP client of this package. So hg gets no secrets. Credentials, limits, certificates
// and redirects are handled as for all other repositories. The whole history is cloned, because Mercurial has no
// shallow clones.
type hgRepository struct {
	fetcher  *Fetcher
	location location

	mu    sync.Mutex
	dir   string // temporary directory; empty until the repository is cloned
	files *directory
}

func (h *hgRepository) index(ctx context.Context, _ Validators) (*spool, Validators, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fetch(ctx); err != nil {
		return nil, Validators{}, wrap("while cloning the hg repository", err)
	}
	content, err := h.files.readIndex()
	return content, Validators{}, wrap("while getting index file", err)
}

func (h *hgRepository) addon(ctx context.Context, name, version string, _ Validators) (*spool, Validators, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fetch(ctx); err != nil {
		return nil, Validators{}, wrap("while cloning the hg repository", err)
	}
	content, err := h.files.readAddon(ctx, name+"-"+version)
	return content, Validators{}, err
}

func (h *hgRepository) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files == nil {
		return nil
	}
	err := errors.Join(h.files.root.Close(), h.free(h.dir))
	h.files, h.dir = nil, ""
	return err
}

// reserve reserves the space for a clone. If too many clones exist, it waits until one of them is freed. If other
// temporary files use the space, reserve returns an error.
func (h *hgRepository) reserve(ctx context.Context) error {
	select {
	case h.fetcher.clones <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if h.fetcher.disk.left.Add(-h.fetcher.limits.clone()) < 0 {
		return errors.Join(errNoSpace, h.free(""))
	}
	return nil
}

// free removes the directory of a clone, if there is one, and ends the reservation of its space.
func (h *hgRepository) free(dir string) error {
	err := os.RemoveAll(dir)
	h.fetcher.disk.left.Add(h.fetcher.limits.clone())
	<-h.fetcher.clones
	return err
}

func (h *hgRepository) fetch(ctx context.Context) error {
	if h.files != nil {
		return nil
	}
	program, err := exec.LookPath("hg")
	if err != nil {
		return failed("hg repositories need the program hg, which is not installed")
	}
	if err := h.reserve(ctx); err != nil {
		return err
	}
	space := h.fetcher.disk.dir
	dir, err := inDir(space, func() (string, error) { return os.MkdirTemp(space, "hg-") })
	if err == nil {
		err = h.clone(ctx, program, dir)
	}
	var files *directory
	if err == nil {
		files, err = h.fetcher.openDirectory(filepath.Join(dir, "files"), h.location.index)
	}
	if err != nil {
		return errors.Join(err, h.free(dir))
	}
	h.dir, h.files = dir, files
	return nil
}

// clone clones the repository, and writes the files of the wanted revision to dir/files.
func (h *hgRepository) clone(ctx context.Context, program, dir string) error {
	release, err := h.fetcher.commands.acquire(ctx, h.location.root.Host)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, h.fetcher.limits.Command)
	defer cancel()
	address := h.location.root.Path
	failure := func() error { return nil }
	if h.location.root.Scheme != "file" {
		relay, err := h.fetcher.startRelay(ctx, h.location.root)
		if err != nil {
			return err
		}
		defer relay.close()
		address = relay.address
		failure = relay.failed
	}
	revision := h.location.ref
	if revision == "" {
		revision = "default"
	}
	clone := filepath.Join(dir, "clone")
	if err := h.run(ctx, program, dir, "clone", "--noupdate", "--", address, clone); err != nil {
		return cmp.Or(failure(), err) // if a request failed, its error is clearer than that of hg
	}
	return h.run(ctx, program, dir, "--cwd", clone, "archive", "--type", "files", "--rev", revision, "--", filepath.Join(dir, "files"))
}

// run runs the program hg in dir with args. hg reads no configuration files of the system and of users. Of the
// operator's environment variables, it gets only PATH and PYTHONPATH.
func (h *hgRepository) run(ctx context.Context, program, dir string, args ...string) error {
	// The shell limits the size of each file that hg writes.
	const inBlocks = 512
	script := fmt.Sprintf(`ulimit -f %d && exec "$0" "$@"`, h.fetcher.limits.clone()/inBlocks)
	args = append([]string{"-c", script, program, "--noninteractive", "--config", "subrepos.allowed=false"}, args...)
	command := exec.CommandContext(ctx, "sh", args...)
	command.Dir = dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + os.Getenv("PYTHONPATH"), "HOME=" + dir, "HGRCPATH=", "HGPLAIN=1", "LC_ALL=C.UTF-8", "no_proxy=*"}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return failed("hg fails: %s", strings.ReplaceAll(strings.ReplaceAll(lines[len(lines)-1], dir, ""), "abort: ", ""))
	}
	return nil
}

// A relay is an HTTP server that forwards the requests of hg to the server of the repository.
type relay struct {
	client  *client
	target  *url.URL
	limits  Limits
	prefix  string // random prefix of all paths, so that other processes cannot guess the address of the relay
	left    atomic.Int64
	failure atomic.Pointer[error]
	server  *http.Server
	address string
}

func (f *Fetcher) startRelay(ctx context.Context, target *url.URL) (*relay, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{client: f.client, target: target, limits: f.limits, prefix: "/" + rand.Text()}
	r.left.Store(f.limits.clone())
	r.address = "http://" + listener.Addr().String() + r.prefix
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: f.limits.Request, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *relay) close() { r.server.Close() }

// ServeHTTP forwards a request of hg to the server of the repository, with the arguments that hg sends in the query
// and in headers.
func (r *relay) ServeHTTP(w http.ResponseWriter, from *http.Request) {
	rest, ours := strings.CutPrefix(from.URL.Path, r.prefix)
	if !ours || from.Method != http.MethodGet {
		http.NotFound(w, from)
		return
	}
	u := *r.target
	u.Path, u.RawPath = path.Join(u.Path, rest), ""
	query := u.Query()
	maps.Copy(query, from.URL.Query())
	u.RawQuery = query.Encode()
	header := http.Header{"Accept": from.Header["Accept"]}
	for name, values := range from.Header {
		if strings.HasPrefix(name, "X-Hg") {
			header[name] = values
		}
	}
	got, err := r.client.do(from.Context(), request{method: http.MethodGet, url: &u, header: header, time: r.limits.Command})
	if err != nil {
		r.fail(w, err)
		return
	}
	defer got.close()
	if got.StatusCode != http.StatusOK {
		r.fail(w, failed("bad response code: %d", got.StatusCode))
		return
	}
	w.Header().Set("Content-Type", got.Header.Get("Content-Type"))
	if _, err := io.Copy(w, &budget{reader: got.Body, left: &r.left}); err != nil {
		r.failure.CompareAndSwap(nil, &err)
		panic(http.ErrAbortHandler) // closes the connection, so that hg does not treat the answer as complete
	}
}

// failed returns the error of the first request that failed, or nil if none failed.
func (r *relay) failed() error {
	if err := r.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (r *relay) fail(w http.ResponseWriter, err error) {
	r.failure.CompareAndSwap(nil, &err)
	w.WriteHeader(http.StatusBadGateway)
}

// A budget is a reader with a limit, which several readers can share: left is the number of bytes that all of them
// together can still read. If they read more than that, they return an error.
type budget struct {
	reader io.Reader
	left   *atomic.Int64
}

func (b *budget) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	if b.left.Add(-int64(n)) < 0 {
		return 0, invalid("the repository is larger than its limit")
	}
	return n, err
}
