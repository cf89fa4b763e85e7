package story

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// addonsCRDs is the file with the definitions of addons configurations, relative to the directory
// of the test.
const addonsCRDs = "../deploy/crds.yaml"

var repositoryCommands = map[string]command{
	"addons-crds":  applyAddonsCRDs,
	"repositories": serveRepositories,
	"requests":     countRequests,
	"await-object": awaitObject,
}

// applyAddonsCRDs installs the CRDs of addons configurations. The story must have a separate cluster, because the
// operators of other stories would process its configurations.
func applyAddonsCRDs(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("addons-crds")
	}
	if w.own == nil {
		return errors.New("the story needs a cluster of its own: add a file own-cluster")
	}
	text, err := os.ReadFile(addonsCRDs)
	if err != nil {
		return err
	}
	return w.applyText(string(text))
}

// A repositoryServer serves a directory of addon repositories over HTTP. If NAME.tgz is requested, it serves the
// directory NAME as an archive.
type repositoryServer struct {
	dir string
	url string

	mu       sync.Mutex
	requests map[string]int           // by path; guarded by mu
	held     map[string]chan struct{} // closed to release the requests of a path; guarded by mu
}

// serveRepositories serves a directory of addon repositories, and sets $REPO to the address. It can also delay the
// requests for a file until they are released:
//
//	repositories serve DIR
//	repositories hold PATH
//	repositories release PATH
func serveRepositories(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("repositories serve DIR | hold PATH | release PATH")
	}
	switch args[0] {
	case "serve":
		s := &repositoryServer{dir: w.path(args[1]), requests: map[string]int{}, held: map[string]chan struct{}{}}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: s} //nolint:gosec // a test's own client
		go server.Serve(l)                 //nolint:errcheck // the server ends with the story
		ts.Defer(func() { _ = server.Close() })
		s.url = "http://" + l.Addr().String()
		w.repositories = s
		ts.Setenv("REPO", s.url)
		return nil
	case "hold":
		w.repositories.mu.Lock()
		defer w.repositories.mu.Unlock()
		w.repositories.held[args[1]] = make(chan struct{})
		return nil
	case "release":
		w.repositories.mu.Lock()
		defer w.repositories.mu.Unlock()
		close(w.repositories.held[args[1]])
		delete(w.repositories.held, args[1])
		return nil
	}
	return usage("repositories serve DIR | hold PATH | release PATH")
}

// ServeHTTP serves a file, or a directory as an archive.
func (s *repositoryServer) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	name := path.Clean(request.URL.Path)
	s.mu.Lock()
	s.requests[name]++
	held := s.held[name]
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-request.Context().Done():
			return
		}
	}
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if text, err := os.ReadFile(file); err == nil {
		_, _ = answer.Write(text)
		return
	}
	dir, isArchive := strings.CutSuffix(file, ".tgz")
	if _, err := os.Stat(dir); !isArchive || err != nil {
		http.NotFound(answer, request)
		return
	}
	archive, err := pack(os.DirFS(dir))
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = answer.Write(archive)
}

// pack returns a gzipped tar of files.
func pack(files fs.FS) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	if err := archive.AddFS(files); err != nil {
		return nil, err
	}
	err := errors.Join(archive.Close(), zipped.Close())
	return out.Bytes(), err
}

// countRequests waits until a file was requested at least LEAST and at most MOST times: requests PATH LEAST [MOST].
// The default of MOST is LEAST.
func countRequests(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return usage("requests PATH LEAST [MOST]")
	}
	least, err := strconv.Atoi(args[1])
	most := least
	if err == nil && len(args) == 3 {
		most, err = strconv.Atoi(args[2])
	}
	if err != nil {
		return err
	}
	n := 0
	return wait(func() error {
		w.repositories.mu.Lock()
		defer w.repositories.mu.Unlock()
		if n = w.repositories.requests[args[0]]; n < least || n > most {
			return fmt.Errorf("%s was requested %d times", args[0], n)
		}
		return nil
	})
}

// awaitObject waits until a filter returns true for an object: await-object KIND/NAME FILTER.
func awaitObject(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("await-object KIND/NAME FILTER")
	}
	return wait(func() error {
		text, err := w.read(args[0])
		if err != nil {
			return err
		}
		results, err := filtered(text, strings.ReplaceAll(args[1], "$REPO", ts.Getenv("REPO")))
		if err == nil && strings.TrimSpace(results) != "true" {
			err = fmt.Errorf("%s returned %s for\n%s", args[1], results, text)
		}
		return err
	})
}
