package sourcetest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// A Git is a git repository in the directory Dir.
type Git struct {
	Dir string
	t   testing.TB
}

// NewGit creates a git repository in the directory root/name, and commits files on the branch main. files maps the
// path of each file to its contents.
func NewGit(t testing.TB, root, name string, files map[string]string) *Git {
	t.Helper()
	g := &Git{Dir: filepath.Join(root, name), t: t}
	if err := os.MkdirAll(g.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g.Run("init", "-q", "-b", "main")
	g.Commit(files)
	return g
}

// Commit writes files, commits all changes, and returns the hash of the commit. files maps the path of each file to its
// contents.
func (g *Git) Commit(files map[string]string) string {
	g.t.Helper()
	for name, text := range files {
		path := filepath.Join(g.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			g.t.Fatal(err)
		}
	}
	g.Run("add", "-A")
	g.Run("commit", "-q", "--allow-empty", "-m", "change")
	return g.Run("rev-parse", "HEAD")
}

// Run runs git with args in the repository, and returns its output.
func (g *Git) Run(args ...string) string {
	g.t.Helper()
	command := exec.CommandContext(g.t.Context(), "git", args...)
	command.Dir = g.Dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	out, err := command.CombinedOutput()
	if err != nil {
		g.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// ServeGit serves the git repositories below root over HTTPS until the end of the test. If user is not empty, the
// server requires this user and password as basic auth.
func ServeGit(t testing.TB, root, user, password string) *httptest.Server {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	backend := &cgi.Handler{
		Path: program, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); user != "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// An SSH is an ssh server for git repositories.
type SSH struct {
	// Addr is the address of the server, as host:port.
	Addr string
	// Key is the private key that the server accepts, in PEM format encoded in base64.
	Key string
	// KnownHosts is the path of a known_hosts file with the host key of the server.
	KnownHosts string
}

// ServeSSH serves the git repositories below root over ssh until the end of the test. The only program that clients
// can run is git-upload-pack.
func ServeSSH(t testing.TB, root string) *SSH {
	t.Helper()
	host, _ := newKey(t)
	client, encoded := newKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serveSSH(t.Context(), connection, config, root) })
		}
	})
	s := &SSH{Addr: listener.Addr().String(), Key: encoded, KnownHosts: filepath.Join(t.TempDir(), "known_hosts")}
	line := knownhosts.Line([]string{s.Addr}, host.PublicKey())
	if err := os.WriteFile(s.KnownHosts, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func newKey(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(block))
}

func serveSSH(ctx context.Context, connection net.Conn, config *ssh.ServerConfig, root string) {
	defer connection.Close()
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			var payload struct{ Command string }
			if request.Type != "exec" || ssh.Unmarshal(request.Payload, &payload) != nil {
				_ = request.Reply(false, nil)
				continue
			}
			_ = request.Reply(true, nil)
			status := uploadPack(ctx, channel, payload.Command, root)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			channel.Close()
		}
	}
}

// command is a regular expression for the shell command that a git client sends. The path in the shell command, with or
// without a leading slash, is relative to the root of ServeSSH.
var command = regexp.MustCompile(`^git-upload-pack '/?([^']+)'$`)

func uploadPack(ctx context.Context, channel ssh.Channel, line, root string) uint32 {
	found := command.FindStringSubmatch(line)
	if found == nil || !filepath.IsLocal(found[1]) {
		_, _ = fmt.Fprintf(channel.Stderr(), "%s is not allowed\n", line)
		return 128
	}
	run := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "upload-pack", filepath.Join(root, found[1]))
	run.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	run.Stdout, run.Stderr = channel, channel.Stderr()
	stdin, err := run.StdinPipe()
	if err != nil || run.Start() != nil {
		return 128
	}
	go func() {
		defer stdin.Close()
		_, _ = io.Copy(stdin, channel)
	}()
	if run.Wait() != nil {
		return 128
	}
	return 0
}
