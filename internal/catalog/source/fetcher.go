package source

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"addon-operator/internal/catalog"
)

// Options configure a Fetcher.
type Options struct {
	// Develop allows the schemes http and file in addition to https and ssh.
	Develop bool
	// TempDir is the directory for temporary files, or "" for [os.TempDir]. The Fetcher uses its subdirectory
	// addons-fetch, which [New] empties.
	TempDir string
	// RootCAs are the certificate authorities with which https servers are verified. If RootCAs is nil, the certificate
	// authorities of the system are used.
	RootCAs *x509.CertPool
	// KnownHosts is the path of a file with ssh host keys in the format of OpenSSH. The Fetcher reads the file for
	// each connection. The keys of a host in this file replace its built-in keys.
	KnownHosts string
	// Limits override [DefaultLimits]. If a field is 0, the default is used.
	Limits Limits
}

// Limits are maximum sizes, numbers and times. They protect the operator from servers that send too much or respond too
// slowly.
type Limits struct {
	// Index, Archive and Repository are maximum sizes in bytes: of an index, of the archive of an addon, and of the
	// data that a git or hg server sends for a repository.
	Index, Archive, Repository int64
	// Disk is the maximum total size in bytes of all temporary files of the Fetcher. They use at most half of their file
	// system, even if Disk is larger.
	Disk int64
	// Objects is the maximum number of objects in the packfile that a git server sends.
	Objects int
	// Redirects is the maximum number of redirects of one request.
	Redirects int
	// Requests and RequestsPerHost are the maximum numbers of concurrent HTTP requests, in all and to one host.
	Requests, RequestsPerHost int
	// Commands and CommandsPerHost are the maximum numbers of git and hg repositories that are fetched concurrently,
	// in all and from one host.
	Commands, CommandsPerHost int
	// Request is the timeout of one HTTP request, including the reading of its response. Command is the timeout for
	// fetching a git or hg repository.
	Request, Command time.Duration
}

// DefaultLimits are the limits that replace the fields of [Options.Limits] that are 0.
var DefaultLimits = Limits{
	Index:           catalog.MaxIndexSize,
	Archive:         catalog.DefaultLimits.Total,
	Repository:      256 << 20,
	Disk:            1 << 30,
	Objects:         200_000,
	Redirects:       5,
	Requests:        256,
	RequestsPerHost: 16,
	Commands:        64,
	CommandsPerHost: 4,
	Request:         30 * time.Second,
	Command:         2 * time.Minute,
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits
	return Limits{
		Index:           cmp.Or(l.Index, d.Index),
		Archive:         cmp.Or(l.Archive, d.Archive),
		Repository:      cmp.Or(l.Repository, d.Repository),
		Disk:            cmp.Or(l.Disk, d.Disk),
		Objects:         cmp.Or(l.Objects, d.Objects),
		Redirects:       cmp.Or(l.Redirects, d.Redirects),
		Requests:        cmp.Or(l.Requests, d.Requests),
		RequestsPerHost: cmp.Or(l.RequestsPerHost, d.RequestsPerHost),
		Commands:        cmp.Or(l.Commands, d.Commands),
		CommandsPerHost: cmp.Or(l.CommandsPerHost, d.CommandsPerHost),
		Request:         cmp.Or(l.Request, d.Request),
		Command:         cmp.Or(l.Command, d.Command),
	}
}

// within returns the limits for temporary files on a file system of this size in bytes: Disk is at most half of it, and
// Repository is at most Disk. The other half is for the temporary files of hooks, which fail if the file system is
// full. In the pod of the operator, the file system is a small volume in memory. If the size is 0, it is not known.
func (l Limits) within(fileSystem int64) Limits {
	const mebibyte = 1 << 20
	if half := fileSystem / 2; 0 < half && half < l.Disk {
		l.Disk = max(half/mebibyte, 1) * mebibyte
	}
	l.Repository = min(l.Repository, l.Disk)
	return l
}

// clone returns the size in bytes that a clone of an hg repository can have. A Fetcher reserves this size for each
// clone. Repository can be the whole space for temporary files. Then half of this space stays free for the index and
// the addons that are read from the clone, and for other repositories.
func (l Limits) clone() int64 { return max(min(l.Repository, l.Disk/2), 1) }

// clones returns the maximum number of clones of hg repositories that exist at the same time.
func (l Limits) clones() int { return int(max(l.Disk/l.clone()-1, 1)) }

// sizeOfFileSystem returns the size in bytes of the file system that contains dir, or 0 if it is not known.
func sizeOfFileSystem(dir string) int64 {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil {
		return 0
	}
	return sizeOf(disk)
}

// sizeOf returns the size in bytes of a file system, or 0 if it is not known. Blocks counts units of Frsize. Bsize is
// the best size of a read, which is much larger for file systems in user space.
func sizeOf(disk syscall.Statfs_t) int64 {
	high, size := bits.Mul64(disk.Blocks, uint64(cmp.Or(disk.Frsize, disk.Bsize))) //nolint:gosec // sizes are not negative
	if high > 0 || size > math.MaxInt64 {
		return 0
	}
	return int64(size)
}

// A Fetcher opens repositories. It is safe for concurrent use.
type Fetcher struct {
	develop    bool
	limits     Limits
	knownHosts string
	client     *client
	slots      *slots        // slots of concurrent HTTP requests
	commands   *slots        // slots of git and hg repositories that are being fetched
	clones     chan struct{} // an element for each clone of an hg repository
	packs      chan struct{}
	disk       *diskSpace
}

// New returns a Fetcher. It empties the directory addons-fetch in o.TempDir, in which a killed process can have left
// temporary files.
func New(o Options) (*Fetcher, error) {
	dir := filepath.Join(cmp.Or(o.TempDir, os.TempDir()), "addons-fetch")
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("emptying the directory for temporary files of addons: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory for temporary files of addons: %w", err)
	}
	limits := o.Limits.orDefault().within(sizeOfFileSystem(dir))
	f := &Fetcher{
		develop: o.Develop, limits: limits, knownHosts: o.KnownHosts,
		slots:    newSlots(limits.Requests, limits.RequestsPerHost),
		commands: newSlots(limits.Commands, limits.CommandsPerHost),
		clones:   make(chan struct{}, limits.clones()),
		packs:    make(chan struct{}, 2),
		disk:     &diskSpace{dir: dir},
	}
	f.disk.left.Store(limits.Disk)
	f.client = &client{
		develop: o.Develop, limits: limits, slots: f.slots,
		transport: newTransport(limits, o.RootCAs),
	}
	return f, nil
}

// connectWithin is the timeout for opening a connection, and the timeout for its TLS handshake. If [Limits.Request] is
// shorter, it is used instead.
const connectWithin = 10 * time.Second

func newTransport(limits Limits, roots *x509.CertPool) *http.Transport {
	const maxHeader = 64 << 10
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            newDialer(limits).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    min(connectWithin, limits.Request),
		DisableCompression:     true, // otherwise the transport could decompress an archive
		MaxIdleConns:           limits.Requests,
		MaxIdleConnsPerHost:    limits.RequestsPerHost,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}
}

// Close ends idle connections.
func (f *Fetcher) Close() { f.client.transport.CloseIdleConnections() }

// size returns a number of bytes as text, such as "64 MiB".
func size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
