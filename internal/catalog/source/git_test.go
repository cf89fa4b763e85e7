package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog/sourcetest"
)

// addonFiles returns the files of a repository with one addon. The given text is part of their contents. Many files are
// similar, so that git packs them as deltas.
func addonFiles(text string) map[string]string {
	out := map[string]string{
		"addons/index.yaml":                               "entries: {redis: [{version: 0.0.1}]} # " + text,
		"addons/redis-0.0.1/meta.yaml":                    "name: redis # " + text,
		"addons/redis-0.0.1/chart/redis/Chart.yaml":       "name: redis",
		"addons/redis-0.0.1/chart/redis/templates/a.yaml": random(2000) + text,
		"addons/file-0.0.1":                               "no directory",
	}
	for i := range 30 {
		out[fmt.Sprintf("addons/redis-0.0.1/chart/redis/templates/c%d.yaml", i)] = strings.Repeat("apiVersion: v1\nkind: ConfigMap\n", 100) + fmt.Sprint(i) + text
	}
	return out
}

// checkRepository reads the index and the addon from r, and checks that they equal those of [addonFiles] for this text.
func checkRepository(t *testing.T, r *Repository, text string) {
	t.Helper()
	document, err := r.Index(t.Context(), Validators{})
	if err != nil {
		t.Fatal(err)
	}
	if want := addonFiles(text)["addons/index.yaml"]; string(document.Data) != want {
		t.Errorf("the index is %q, want %q", document.Data, want)
	}
	content, err := r.Addon(t.Context(), "redis", "0.0.1", Validators{})
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	fsys, err := content.FS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range addonFiles(text) {
		if file, ok := strings.CutPrefix(name, "addons/redis-0.0.1/"); ok {
			if got, err := fs.ReadFile(fsys, file); err != nil || string(got) != want {
				t.Errorf("%s has %d bytes, want %d: %v", name, len(got), len(want), err)
			}
		}
	}
	for _, name := range []string{"file", "missing"} {
		_, err = r.Addon(t.Context(), name, "0.0.1", Validators{})
		checkFailure(t, err, api.LoadingError, fmt.Sprintf(`directory "addons/%s-0.0.1" does not exist in the repository`, name))
	}
}

// gitServers serves the git repositories below root over HTTPS and ssh. gitServers returns a Fetcher that trusts the
// servers, a URL prefix for each protocol, and the Secret for the URLs. The caller appends a path below root to a URL
// prefix.
func gitServers(t *testing.T, root string) (*Fetcher, map[string]string, map[string][]byte) {
	t.Helper()
	const user, password = "user-S3cr3t", "pass/S3cr3t {%"
	overHTTP := sourcetest.ServeGit(t, root, user, password)
	overSSH := sourcetest.ServeSSH(t, root)
	f := newFetcher(t, Options{Develop: true, KnownHosts: overSSH.KnownHosts}, overHTTP)
	host, port, _ := net.SplitHostPort(overSSH.Addr)
	return f, map[string]string{
		"https": "git::https://{u}:{p}@" + overHTTP.Listener.Addr().String() + "/",
		"ssh":   "git::ssh://git@" + net.JoinHostPort(host, port) + "/",
		"file":  "git::file://" + root + "/",
	}, secretOf("u", user, "p", password, "key", overSSH.Key)
}

func withKey(kind, rawURL string) string {
	if kind != "ssh" {
		return rawURL
	}
	if strings.Contains(rawURL, "?") {
		return rawURL + "&sshkey={key}"
	}
	return rawURL + "?sshkey={key}"
}

func TestGitRepositoriesAreFetchedByReference(t *testing.T) {
	root := t.TempDir()
	repository := sourcetest.NewGit(t, root, "o/r.git", addonFiles("first"))
	first := repository.Run("rev-parse", "HEAD")
	repository.Run("tag", "light")
	repository.Run("tag", "-a", "-m", "annotated", "v1")
	repository.Commit(addonFiles("second"))
	repository.Run("branch", "feature/x")
	repository.Commit(addonFiles("third"))
	repository.Run("gc", "-q") // stores the objects in a packfile with deltas
	f, servers, secret := gitServers(t, root)
	for kind, server := range servers {
		for query, want := range map[string]string{
			"":                          "third",
			"?ref=v1&depth=1":           "first",
			"?ref=light":                "first",
			"?ref=feature/x":            "second",
			"?ref=refs/heads/feature/x": "second",
			"?ref=main":                 "third",
			"?ref=" + first:             "first", // not a tip, so it must be searched for in the history
			"?ref=" + first[:8]:         "first",
		} {
			t.Run(kind+query, func(t *testing.T) {
				checkRepository(t, open(t, f, withKey(kind, server+"o/r.git//addons/index.yaml"+query), secret), want)
			})
		}
	}
	repository.Run("config", "uploadpack.allowReachableSHA1InWant", "true")
	checkRepository(t, open(t, f, servers["https"]+"o/r.git//addons/index.yaml?ref="+repository.Run("rev-parse", "main~1"), secret), "second")
}

func TestUnchangedGitRepositoriesAreNotClonedAgain(t *testing.T) {
	root := t.TempDir()
	repository := sourcetest.NewGit(t, root, "r.git", addonFiles("first"))
	f, servers, secret := gitServers(t, root)
	for kind, server := range servers {
		t.Run(kind, func(t *testing.T) {
			address := withKey(kind, server+"r.git//addons/index.yaml")
			r := open(t, f, address, secret)
			document, err := r.Index(t.Context(), Validators{})
			if err != nil {
				t.Fatal(err)
			}
			content, err := r.Addon(t.Context(), "redis", "0.0.1", Validators{})
			if err != nil {
				t.Fatal(err)
			}
			content.Close()

			r = open(t, f, address, secret)
			again, err := r.Index(t.Context(), document.Validators)
			if err != nil || !again.NotModified || again.Validators != document.Validators {
				t.Errorf("got %+v, %v", again, err)
			}
			contentAgain, err := r.Addon(t.Context(), "redis", "0.0.1", content.Validators)
			if err != nil || !contentAgain.NotModified || contentAgain.Validators != content.Validators {
				t.Errorf("got %+v, %v", contentAgain, err)
			}
			if r.backend.(*gitRepository).fetched != nil { //nolint:forcetypeassert // it is a git repository
				t.Error("the repository was cloned")
			}
			// The commit is fetched only when a file is needed.
			if got := readAddon(t, r, "redis", "0.0.1", "meta.yaml"); !strings.HasPrefix(got, "name: redis") {
				t.Errorf("got %q", got)
			}

			repository.Commit(map[string]string{"README.md": kind})
			r = open(t, f, address, secret)
			other, err := r.Index(t.Context(), document.Validators)
			if err != nil || !other.NotModified || other.Validators.Revision == document.Validators.Revision {
				t.Errorf("an equal index of another commit: %+v, %v", other, err)
			}
		})
	}
}

func TestFailuresOfGitHaveTheirReasonAndNoSecret(t *testing.T) {
	root := t.TempDir()
	repository := sourcetest.NewGit(t, root, "r.git", addonFiles("x"))
	if err := os.Symlink("/etc/passwd", filepath.Join(repository.Dir, "addons", "redis-0.0.1", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("index.yaml", filepath.Join(repository.Dir, "addons", "linked.yaml")); err != nil {
		t.Fatal(err)
	}
	repository.Commit(nil)
	sourcetest.NewGit(t, root, "large.git", map[string]string{"index.yaml": random(1<<20 + 1), "a-1/big": strings.Repeat("x", 6<<20)})
	f, servers, secret := gitServers(t, root)
	for kind, server := range servers {
		for rawURL, want := range map[string]string{
			"missing.git//addons/index.yaml":            "",
			"r.git//addons/missing.yaml":                `file "addons/missing.yaml" does not exist in the repository`,
			"r.git//addons":                             `"addons" in the repository is not a regular file`,
			"r.git//addons/linked.yaml":                 `is not a regular file`,
			"r.git//addons/index.yaml?ref=nothing":      `reference "nothing" does not exist in the repository`,
			"r.git//addons/index.yaml?ref=deadbeefcafe": `reference "deadbeefcafe" does not exist`,
			"large.git//index.yaml":                     "the index is larger than the limit of 1 MiB",
		} {
			t.Run(kind+" "+rawURL, func(t *testing.T) {
				r := open(t, f, withKey(kind, server+rawURL), secret)
				_, err := r.Index(t.Context(), Validators{})
				checkFailure(t, err, api.FetchingIndexError, want)
			})
		}
		r := open(t, f, withKey(kind, server+"r.git//addons/index.yaml"), secret)
		_, err := r.Addon(t.Context(), "redis", "0.0.1", Validators{})
		checkFailure(t, err, api.LoadingError, "link is a link that leads to no file or directory of the repository")
		r = open(t, f, withKey(kind, server+"large.git//index.yaml"), secret)
		_, err = r.Addon(t.Context(), "a", "1", Validators{})
		checkFailure(t, err, api.LoadingError, "larger than the limit of 5 MiB")
	}

	wrong := secretOf("u", "user-S3cr3t", "p", "another-S3cr3t", "key", sourcetest.ServeSSH(t, root).Key)
	for kind, want := range map[string]string{"https": "bad response code: 401", "ssh": "the ssh server rejects the credentials in the repository URL"} {
		_, err := open(t, f, withKey(kind, servers[kind]+"r.git//addons/index.yaml"), wrong).Index(t.Context(), Validators{})
		checkFailure(t, err, api.FetchingIndexError, want)
	}
	address, err := Render(servers["ssh"]+"r.git//i.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Open(address)
	checkFailure(t, err, api.FetchingIndexError, "git over ssh needs a private key")
}

// TestKeysThatSSHKeyscanPrintsAreKnown writes the file of known hosts with ssh-keyscan, as
// docs/addons-configurations.md recommends. A Fetcher with this file must accept the key of the server.
func TestKeysThatSSHKeyscanPrintsAreKnown(t *testing.T) {
	t.Parallel()
	keyscan, err := exec.LookPath("ssh-keyscan")
	if err != nil {
		t.Skip("ssh-keyscan is not installed")
	}
	root := t.TempDir()
	sourcetest.NewGit(t, root, "r.git", addonFiles("x"))
	server := sourcetest.ServeSSH(t, root)
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := exec.CommandContext(t.Context(), keyscan, "-T", "90", "-p", port, host).Output()
	if err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, Options{KnownHosts: known})
	secret := secretOf("key", server.Key)
	if _, err := open(t, f, "git::ssh://git@"+server.Addr+"/r.git//addons/index.yaml?sshkey={key}", secret).Index(t.Context(), Validators{}); err != nil {
		t.Errorf("%v; ssh-keyscan printed\n%s", err, keys)
	}
}

func TestAnSSHServerWithAnUnknownKeyIsRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	sourcetest.NewGit(t, root, "r.git", addonFiles("x"))
	server, other := sourcetest.ServeSSH(t, root), sourcetest.ServeSSH(t, root)
	secret := secretOf("key", server.Key)
	// The file of known hosts has the address of one server with the key of the other.
	otherKey, err := os.ReadFile(other.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	_, _, key, _, _, err := ssh.ParseKnownHosts(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed")
	if err := os.WriteFile(changed, []byte(knownhosts.Line([]string{server.Addr}, key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"":                                    "the ssh host key of 127.0.0.1 is not known",
		other.KnownHosts:                      "the ssh host key of 127.0.0.1 is not known",
		changed:                               "the ssh host key of 127.0.0.1 is not the known one",
		filepath.Join(t.TempDir(), "nothing"): "the file of known hosts of ssh cannot be read",
	} {
		f := newFetcher(t, Options{KnownHosts: file})
		_, err := open(t, f, "git::ssh://git@"+server.Addr+"/r.git//addons/index.yaml?sshkey={key}", secret).Index(t.Context(), Validators{})
		checkFailure(t, err, api.FetchingIndexError, want)
	}
	f := newFetcher(t, Options{KnownHosts: server.KnownHosts})
	checkRepository(t, open(t, f, "git::ssh://git@"+server.Addr+"/r.git//addons/index.yaml?sshkey={key}", secret), "x")
}

func TestBuiltInHostKeysAreValid(t *testing.T) {
	t.Parallel()
	for host := range builtinHosts {
		if _, err := hostKeys("", host+":22", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 22}); err != nil {
			t.Error(err)
		}
	}
}

func TestSSHPathsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"git::git@host:o/r.git//i.yaml":            "o/r.git",
		"git::ssh://git@host/o/r.git//i.yaml":      "/o/r.git",
		"git::ssh://git@host/~me/r.git//i.yaml":    "~me/r.git",
		"git::ssh://git@host/it's%20r.git//i.yaml": "/it's r.git",
	} {
		l, err := parse(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&sshUploadPack{location: l}).path(); got != want {
			t.Errorf("%s is at %s, want %s", text, got, want)
		}
	}
	if got := quote("it's"); got != `'it'\''s'` {
		t.Errorf("got %s", got)
	}
}

func TestAGitServerThatHangsEndsInItsLimit(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	root := t.TempDir()
	ssh := sourcetest.ServeSSH(t, root)
	hanging := hang(t)
	f := newFetcher(t, Options{KnownHosts: ssh.KnownHosts, Limits: Limits{Command: 300 * time.Millisecond}}, hanging)
	line, err := os.ReadFile(ssh.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.ReplaceAll(string(line), "["+strings.Replace(ssh.Addr, ":", "]:", 1), "["+strings.Replace(listener.Addr().String(), ":", "]:", 1))
	if err := os.WriteFile(ssh.KnownHosts, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, rawURL := range []string{
		"git::" + hanging.URL + "/r.git//index.yaml",
		"git::ssh://git@" + listener.Addr().String() + "/r.git//index.yaml?sshkey={key}",
	} {
		_, err := open(t, f, rawURL, secretOf("key", ssh.Key)).Index(t.Context(), Validators{})
		checkFailure(t, err, api.FetchingIndexError, "did not respond in time")
	}
	stopped := errors.New("the operator stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if _, err := open(t, f, "git::"+hanging.URL+"/r.git//index.yaml", nil).Index(ctx, Validators{}); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}

func TestAGitRepositoryBeyondALimitIsRefused(t *testing.T) {
	root := t.TempDir()
	sourcetest.NewGit(t, root, "r.git", addonFiles("x"))
	sourcetest.NewGit(t, root, "bomb.git", map[string]string{"a": strings.Repeat("x", 20<<20)})
	server := sourcetest.ServeGit(t, root, "", "")
	for name, test := range map[string]struct {
		limits Limits
		path   string
		want   string
	}{
		"objects":  {Limits{Objects: 5}, "r.git", "objects, more than the limit of 5"},
		"bytes":    {Limits{Repository: 2000}, "r.git", "the repository is larger than the limit"},
		"inflated": {Limits{Repository: 1 << 20}, "bomb.git", "the repository expands to more than its limit"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t, Options{Limits: test.limits}, server)
			_, err := open(t, f, "git::"+server.URL+"/"+test.path+"//addons/index.yaml", nil).Index(t.Context(), Validators{})
			checkFailure(t, err, api.FetchingIndexError, test.want)
		})
	}
}

func TestAShorthandIsFetchedFromItsHost(t *testing.T) {
	t.Parallel()
	f := newFetcher(t, Options{Limits: Limits{Command: time.Minute}})
	f.client.transport.Proxy = func(r *http.Request) (*url.URL, error) { return nil, failed("asked %s for %s", r.URL.Host, r.URL.Path) }
	_, err := open(t, f, "github.com/o/r//a/index.yaml?ref=v1", nil).Index(t.Context(), Validators{})
	checkFailure(t, err, api.FetchingIndexError, "asked github.com for /o/r.git/info/refs")
}

func TestAMovedGitRepositoryIsFetchedWhereItIs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	sourcetest.NewGit(t, root, "new.git", addonFiles("x"))
	server := sourcetest.ServeGit(t, root, "", "")
	moved := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.URL+strings.Replace(r.URL.String(), "old.git", "new.git", 1), http.StatusMovedPermanently)
	}))
	defer moved.Close()
	f := newFetcher(t, Options{}, server, moved)
	checkRepository(t, open(t, f, "git::"+moved.URL+"/old.git//addons/index.yaml", nil), "x")
}
