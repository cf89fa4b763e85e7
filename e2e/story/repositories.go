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

// addonsCRDs is the path of the file with the CRDs of addons configurations. It is relative to the directory e2e, whose
// test runs all stories about addons.
const addonsCRDs = "../deploy/crds.yaml"

var repositoryCommands = map[string]command{
	"addons-crds":  applyAddonsCRDs,
	"repositories": serveRepositories,
	"requests":     countRequests,
	"await-object": awaitObject,
}

// applyAddonsCRDs implements the command "addons-crds". It installs the CRDs of addons configurations. The story must
// have a cluster of its own, because otherwise the operators of other stories would process its addons configurations.
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
	requests map[string]int           // number of requests by path; guarded by mu
	held     map[string]chan struct{} // channels by path; requests for the path wait until its channel is closed; guarded by mu
}

// serveRepositories implements the command "repositories". "serve" serves the addon repositories in the directory DIR
// over HTTP, and sets $REPO to the URL of the server. "hold" delays the responses to requests for PATH until
// "release":
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
		go server.Serve(l)                 //nolint:errcheck // returns when the server is closed at the end of the story
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

// ServeHTTP serves the requested file, or packs and serves a directory if an archive is requested. It counts the
// request, and delays the response while the path is held.
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

// pack returns a gzipped tar archive of all files.
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

// countRequests implements the command "requests PATH LEAST [MOST]". It waits until PATH was requested from the
// repository server at least LEAST and at most MOST times. The default of MOST is LEAST.
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

// awaitObject implements the command "await-object KIND/NAME FILTER". It waits until the jq filter FILTER returns true
// for the object.
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
