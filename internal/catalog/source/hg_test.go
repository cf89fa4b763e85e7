package source

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/api"
)

// hgRepositoryOf creates an hg repository, and commits the files of [addonFiles] for the text "first", and then for the
// text "second". The first commit has the tag v1. If hg is not installed, the test is skipped.
func hgRepositoryOf(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("hg"); err != nil {
		t.Skip("hg is not installed")
	}
	dir := t.TempDir()
	run := func(args ...string) {
		command := exec.CommandContext(t.Context(), "hg", args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "HGRCPATH=", "HGUSER=test")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("hg %v: %v\n%s", args, err, out)
		}
	}
	commit := func(text string) {
		for name, content := range addonFiles(text) {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run("commit", "-A", "-q", "-m", text)
	}
	run("init")
	commit("first")
	run("tag", "v1")
	commit("second")
	return dir
}

func TestHgRepositoriesAreFetchedByRevision(t *testing.T) {
	t.Parallel()
	dir := hgRepositoryOf(t)
	port := serveHg(t, dir)
	// This proxy serves the repository over HTTPS, and requires credentials.
	const password = "pass-S3cr3t"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); p != password || r.URL.Query().Get("t") != "token-S3cr3t" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		port.ServeHTTP(w, r)
	}))
	defer server.Close()
	f := newFetcher(t, Options{Develop: true}, server)
	secret := secretOf("p", password, "t", "token-S3cr3t")
	overHTTPS := "hg::https://user:{p}@" + server.Listener.Addr().String() + "/r//addons/index.yaml?t={t}"
	for rawURL, text := range map[string]string{
		overHTTPS: "second", overHTTPS + "&rev=v1": "first", "hg::file://" + dir + "//addons/index.yaml?rev=v1": "first",
	} {
		r := open(t, f, rawURL, secret)
		checkRepository(t, r, text)
		r.Close() // frees the space for the next clone
	}

	for rawURL, want := range map[string]string{
		overHTTPS + "&rev=nothing": "hg fails: unknown revision 'nothing'",
		"hg::https://user:{t}@" + server.Listener.Addr().String() + "/r//addons/index.yaml?x={p}": "bad response code: 401",
		"hg::file:///nothing//index.yaml": "hg fails: repository /nothing not found",
	} {
		_, err := open(t, f, rawURL, secret).Index(t.Context(), Validators{})
		checkFailure(t, err, api.FetchingIndexError, want)
	}
	small := newFetcher(t, Options{Limits: Limits{Repository: 1000}}, server)
	_, err := open(t, small, overHTTPS, secret).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "the repository is larger than its limit")
}

// TestAnHgCloneLeavesSpaceForItsAddons uses the limits of a small volume: the limit of one repository is the whole
// space for temporary files.
func TestAnHgCloneLeavesSpaceForItsAddons(t *testing.T) {
	t.Parallel()
	const space = 4 << 20
	f := newFetcher(t, Options{Develop: true, Limits: Limits{Disk: space, Repository: space}})
	rawURL := "hg::file://" + hgRepositoryOf(t) + "//addons/index.yaml"
	first, second := open(t, f, rawURL, nil), open(t, f, rawURL, nil)
	if _, err := first.Index(t.Context(), Validators{}); err != nil {
		t.Fatal(err)
	}
	archive := f.disk.newSpool("the archive", space)
	if _, err := archive.Write([]byte(random(inMemory + 1))); err != nil {
		t.Errorf("beside a clone: %v", err)
	}
	archive.Close()

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := second.Index(canceled, Validators{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a second clone does not wait for space: %v", err)
	}
	first.Close()
	checkRepository(t, second, "second")
	second.Close()
	if left := f.disk.left.Load(); left != space {
		t.Errorf("after all clones, %d bytes are free, want %d", left, space)
	}
}

func TestHgRepositoriesWithoutTheProgramFail(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := open(t, newFetcher(t, Options{}), "hg::https://host/r//index.yaml", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "hg repositories need the program hg, which is not installed")
}

// serveHg runs hg serve for the repository in dir, on the loopback address.
func serveHg(t *testing.T, dir string) http.Handler {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hg", "serve", "--address", "127.0.0.1", "--port", "0", "--print-url")
	command.Dir = dir
	command.Env = append(os.Environ(), "HGRCPATH=", "PYTHONUNBUFFERED=1")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	target.Host = "127.0.0.1:" + target.Port()
	return http.StripPrefix("/r", httputil.NewSingleHostReverseProxy(target))
}
