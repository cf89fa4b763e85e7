package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// builtinHosts has the ssh host keys of public git hosts, as their operators publish them. If the file
// [Options.KnownHosts] has keys of a host, the keys in the file are used instead.
//
// The fingerprints of these keys are published on
// https://docs.github.com/authentication/keeping-your-account-and-data-secure/githubs-ssh-key-fingerprints,
// https://docs.gitlab.com/user/gitlab_com/#ssh-host-keys-fingerprints and
// https://support.atlassian.com/bitbucket-cloud/docs/configure-ssh-and-two-step-verification.
var builtinHosts = map[string]string{
	"github.com":    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
	"gitlab.com":    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf",
	"bitbucket.org": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIazEu89wgQZ4bqs3d63QSMzYVa0MuJ2e2gKTKqu+UUO",
}

// sshUploadPack is an uploadPack that runs git-upload-pack on a server over ssh. The host key of the server must be
// known.
type sshUploadPack struct {
	fetcher  *Fetcher
	location location

	client *ssh.Client
	stop   func() bool
	stdin  io.WriteCloser
	stdout io.Reader
}

// checkSSH returns an error if the location l has neither a private key nor a password for ssh, or if the private key
// is invalid.
func checkSSH(l location) error {
	_, password := l.root.User.Password()
	if len(l.privateKey) == 0 {
		if !password {
			return failed("git over ssh needs a private key: add ?sshkey={key} to the URL, with a key in base64 in the Secret")
		}
		return nil
	}
	_, err := ssh.ParsePrivateKey(l.privateKey)
	if _, encrypted := errors.AsType[*ssh.PassphraseMissingError](err); encrypted {
		return failed("the private key in the parameter sshkey is encrypted; use one without a passphrase")
	}
	if err != nil {
		return failed("the parameter sshkey is not a private key in the format of OpenSSH or PEM, in base64")
	}
	return nil
}

func (s *sshUploadPack) references(ctx context.Context) (io.Reader, error) {
	host := s.location.root.Host
	if s.location.root.Port() == "" {
		host = net.JoinHostPort(s.location.root.Hostname(), "22")
	}
	connection, err := s.fetcher.client.transport.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	s.stop = context.AfterFunc(ctx, func() { connection.Close() })
	config, err := s.config(host, connection.RemoteAddr())
	if err != nil {
		connection.Close()
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(connection, host, config)
	if err != nil {
		connection.Close()
		return nil, s.failure(ctx, err)
	}
	s.client = ssh.NewClient(c, channels, requests)
	session, err := s.client.NewSession()
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	if s.stdin, err = session.StdinPipe(); err != nil {
		return nil, err
	}
	if s.stdout, err = session.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := session.Start("git-upload-pack " + quote(s.path())); err != nil {
		return nil, s.failure(ctx, err)
	}
	return s.stdout, nil
}

// path returns the path of the repository on the server. A relative path begins in the home directory of the user.
func (s *sshUploadPack) path() string {
	path := s.location.root.Path
	if relative, ok := strings.CutPrefix(path, "/"+scpPath); ok {
		return relative
	}
	if strings.HasPrefix(path, "/~") { // ~ and ~USER mean home directories
		return path[1:]
	}
	return path
}

// quote quotes a word for the shell on the server.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func (s *sshUploadPack) request(_ context.Context, text []byte) (io.Reader, error) {
	_, err := s.stdin.Write(text)
	return s.stdout, err
}

func (s *sshUploadPack) close() {
	if s.stop != nil {
		s.stop()
	}
	if s.client != nil {
		s.client.Close()
	}
}

func (s *sshUploadPack) config(host string, address net.Addr) (*ssh.ClientConfig, error) {
	keys, err := hostKeys(s.fetcher.knownHosts, host, address)
	if err != nil {
		return nil, err
	}
	config := &ssh.ClientConfig{User: "git", HostKeyCallback: keys.check, HostKeyAlgorithms: keys.algorithms}
	if user := s.location.root.User; user.Username() != "" {
		config.User = user.Username()
	}
	if len(s.location.privateKey) > 0 {
		signer, err := ssh.ParsePrivateKey(s.location.privateKey)
		if err != nil {
			return nil, checkSSH(s.location)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(signer))
	}
	if password, ok := s.location.root.User.Password(); ok {
		config.Auth = append(config.Auth, ssh.Password(password))
	}
	return config, nil
}

// failure returns the error of ctx if ctx has ended. Otherwise it returns err, with a clear text if the server has
// rejected the credentials.
func (s *sshUploadPack) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*plainError](err); ok {
		return err
	}
	if strings.Contains(err.Error(), "unable to authenticate") {
		return failed("the ssh server rejects the credentials in the repository URL")
	}
	return err
}

// A hostKeySet checks the host key that an ssh server presents against the known keys of the server. The field
// algorithms has the algorithms of the known keys.
type hostKeySet struct {
	check      ssh.HostKeyCallback
	algorithms []string
}

// CheckKnownHosts returns an error if the file with this path cannot be parsed as a file of ssh host keys.
// CheckKnownHosts returns nil if the path is empty.
func CheckKnownHosts(file string) error {
	if file == "" {
		return nil
	}
	if _, err := knownhosts.New(file); err != nil {
		return fmt.Errorf("%s is not a file of ssh host keys: %w; write it with ssh-keyscan HOST", file, err)
	}
	return nil
}

// hostKeys returns the known keys of a server: those in file if it has any for the server, otherwise the built-in
// keys. hostKeys returns an error if no key is known.
func hostKeys(file, host string, address net.Addr) (*hostKeySet, error) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return nil, err
	}
	if file != "" {
		check, err := knownhosts.New(file)
		if err != nil {
			return nil, failed("the file of known hosts of ssh cannot be read")
		}
		// To find the known keys of the host, check a key that no server has: the error contains the known keys.
		probe := check(host, address, noKey{})
		if known, ok := errors.AsType[*knownhosts.KeyError](probe); ok && len(known.Want) > 0 {
			set := &hostKeySet{check: explain(check, name)}
			for _, key := range known.Want {
				set.algorithms = append(set.algorithms, algorithmsOf(key.Key.Type())...)
			}
			return set, nil
		}
	}
	line, ok := builtinHosts[strings.ToLower(name)]
	if !ok {
		return nil, failed("the ssh host key of %s is not known; add it to the file of --addons-known-hosts (ssh-keyscan prints it)", name)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, fmt.Errorf("host key of %s: %w", name, err)
	}
	return &hostKeySet{check: explain(ssh.FixedHostKey(key), name), algorithms: algorithmsOf(key.Type())}, nil
}

// explain returns a callback that does the same as check, but whose errors have a clear text.
func explain(check ssh.HostKeyCallback, name string) ssh.HostKeyCallback {
	return func(hostname string, remote net.Addr, key ssh.PublicKey) error {
		if err := check(hostname, remote, key); err != nil {
			return failed("the ssh host key of %s is not the known one (the fingerprint of the presented key is %s)", name, ssh.FingerprintSHA256(key))
		}
		return nil
	}
}

// algorithmsOf returns the host key algorithms that an ssh client must offer to get a key of this type.
func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// noKey is a public key that no server has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }
