package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v4"
)

// Side configures one of the two addresses that the API server calls. One address is for admission
// reviews, the other for conversion reviews.
type Side struct {
	Address string
	// Port 0 means any free port.
	Port int
	// Service is the name of the Service, in the operator's namespace, through which the API server
	// calls this address.
	Service string
	// Files are the files of the serving certificate. If Files is empty, the operator creates a
	// certificate.
	Files Files
	// ClientCAs are the files with the CAs of clients. If the list is not empty, only clients with
	// a certificate of one of these CAs may connect.
	ClientCAs []string
}

// EndpointOptions configure an [Endpoint].
type EndpointOptions struct {
	Server Options
	// Registrar configures the registrar. The endpoint sets Registrar.Trusted.
	Registrar             RegistrarOptions
	Admission, Conversion Side
	// URL is the address that the API server calls instead of the Services; empty if it calls the
	// Services. If URL is https://HOST, the port of each side is added to the URL. If URL is
	// https://HOST:PORT, the API server calls this address for both sides, and only the admission
	// side listens.
	URL string
	// Lifetime is the time for which certificates that the operator creates are valid.
	Lifetime time.Duration
	// Made is called with the expiry of each CA that the operator creates.
	Made func(expires time.Time)
	// Failed is called with each error. The endpoint retries the failed step. If it cannot watch files, it
	// reads them again at a fixed interval.
	Failed func(error)
}

// Endpoint is a webhook server with its certificates and its registration at the API server. At first,
// its two sides are closed: they do not listen. A side opens when the table contains a binding for it,
// and then stays open. Create one with [NewEndpoint].
type Endpoint struct {
	options   EndpointOptions
	server    *Server
	registrar *Registrar
	changed   chan struct{}

	withdrawing sync.Mutex // locked by Withdraw

	mu    sync.Mutex
	table *Table // nil until Serve is called; guarded by mu

	// Only the goroutine of Run changes the following fields. It locks mu to set a rotator, because
	// other goroutines also read the rotators.
	admission, conversion side
	made                  *Rotator // the rotator of created certificates; nil until a side needs it
	wanted                *Wanted  // the last desired state of the registrar; nil at first
}

// side is the state of a Side. port is the port on which the side listens; it is 0 if the side does
// not listen. rotator is nil until the rotator is created.
type side struct {
	options Side
	port    int
	rotator *Rotator
}

// NewEndpoint returns a closed endpoint.
func NewEndpoint(o EndpointOptions) *Endpoint {
	g := &Endpoint{options: o, server: NewServer(o.Server), changed: make(chan struct{}, 1)}
	g.admission.options, g.conversion.options = o.Admission, o.Conversion
	o.Registrar.Trusted = g.trusted
	g.registrar = NewRegistrar(o.Registrar)
	return g
}

// Serve replaces the table of served bindings with t. It does not block.
func (g *Endpoint) Serve(t Table) {
	g.mu.Lock()
	g.table = &t
	g.mu.Unlock()
	g.server.Serve(t)
	signal(g.changed)
}

// Stop waits for the running requests and accepts no new requests; see [Server.Stop].
func (g *Endpoint) Stop(ctx context.Context) { g.server.Stop(ctx) }

// Run opens each side when the table contains a binding for it, and keeps the registered webhooks up
// to date, until ctx ends. After that, the webhooks stay registered, and the endpoint answers requests
// until Stop is called.
func (g *Endpoint) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { g.registrar.Run(ctx) })
	again := newRetry()
	repeat(ctx, g.changed, func() time.Duration { return g.update(ctx, &running, again) })
}

// update opens the sides that the table needs, and passes the table to the registrar. If a side
// cannot be opened, the webhooks of the other one are registered nevertheless, and update returns
// the delay after which it must be called again. Otherwise it returns zero.
func (g *Endpoint) update(ctx context.Context, running *sync.WaitGroup, again *backoff.ExponentialBackOff) time.Duration {
	g.mu.Lock()
	table := g.table
	g.mu.Unlock()
	if table == nil {
		return 0
	}
	var errs []error
	if len(table.Admissions) > 0 {
		errs = append(errs, g.open(ctx, running, &g.admission))
	}
	if len(table.Conversions) > 0 {
		errs = append(errs, g.open(ctx, running, g.converting()))
	}
	want := &Wanted{
		Table: *table, Admission: g.place(&g.admission, g.options.Admission), Conversion: g.place(g.converting(), g.options.Conversion),
	}
	if !reflect.DeepEqual(want, g.wanted) { // Want ends the delays between attempts of the registrar
		g.registrar.Want(*want)
		g.wanted = want
	}
	err := errors.Join(errs...)
	if err == nil || ctx.Err() != nil {
		again.Reset()
		return 0
	}
	g.options.Failed(err)
	return again.NextBackOff()
}

// converting returns the side that serves conversion reviews.
func (g *Endpoint) converting() *side {
	if g.options.oneSided() {
		return &g.admission
	}
	return &g.conversion
}

// place returns the address of the side s for the requests that o configures. While s is closed or
// has no certificate, the result has no bundle.
func (g *Endpoint) place(s *side, o Side) Place {
	p := Place{Service: o.Service}
	if s.port == 0 {
		return p
	}
	p.Bundle = s.rotator.Bundle()
	if g.options.URL != "" {
		p.URL = g.options.urlOf(s.port)
	}
	return p
}

// trusted notifies the rotators that the bundles in w are registered.
func (g *Endpoint) trusted(w Wanted) {
	g.mu.Lock()
	admission, conversion := g.admission.rotator, g.converting().rotator
	g.mu.Unlock()
	if admission != nil {
		admission.InForce(w.Admission.Bundle)
	}
	if conversion != nil {
		conversion.InForce(w.Conversion.Bundle)
	}
}

// A Serving describes a certificate in use.
type Serving struct {
	// File is the file of the certificate; empty if the operator created it.
	File            string
	Begins, Expires time.Time
}

// Certificates returns the certificates in use, sorted by file. A side has no certificate before the table contains a
// binding for it. If both sides use the same certificate, the result contains it once.
func (g *Endpoint) Certificates() (all []Serving) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range []*side{&g.admission, &g.conversion} {
		if s.rotator == nil {
			continue
		}
		pair := s.rotator.Serving()
		if pair.Certificate.Leaf == nil {
			continue
		}
		one := Serving{File: s.options.Files.Certificate, Begins: pair.Certificate.Leaf.NotBefore, Expires: pair.Expires}
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Serving) int { return strings.Compare(a.File, b.File) })
	return all
}

// open creates the rotator of s and starts to listen, unless s is open already.
func (g *Endpoint) open(ctx context.Context, running *sync.WaitGroup, s *side) error {
	if s.rotator == nil {
		rotator, err := g.rotator(ctx, running, s.options.Files)
		if err != nil {
			return err
		}
		g.mu.Lock()
		s.rotator = rotator
		g.mu.Unlock()
	}
	return g.listen(ctx, running, s)
}

// oneSided reports whether the admission side serves both kinds of requests.
func (o EndpointOptions) oneSided() bool {
	at, err := url.Parse(o.URL)
	return err == nil && at.Port() != ""
}

// urlOf returns the URL, without a path, at which the API server calls the side that listens on
// port.
func (o EndpointOptions) urlOf(port int) string {
	at, err := url.Parse(o.URL)
	if err != nil || at.Port() != "" {
		return strings.TrimSuffix(o.URL, "/")
	}
	return "https://" + net.JoinHostPort(at.Hostname(), strconv.Itoa(port))
}

// issue returns the rotator of the certificates that the operator creates. All sides without files
// share this rotator. The first call of issue creates and starts the rotator.
func (g *Endpoint) issue(ctx context.Context, running *sync.WaitGroup) *Rotator {
	if g.made == nil {
		r := g.options.Registrar
		issuer := &Issuer{
			Secret:   ClusterSecret{Client: r.Client, Namespace: r.Namespace, Name: r.Name + "-webhook-ca"},
			Lifetime: g.options.Lifetime, Hosts: g.hosts(), Clock: r.Clock, Failed: g.options.Failed, Made: g.options.Made,
		}
		made := issuer.NewRotator(func() { signal(g.changed) })
		running.Go(func() { made.Run(ctx) })
		running.Go(func() { issuer.Run(ctx, made) })
		g.made = made
	}
	return g.made
}

// hosts returns the host names with which the API server may call the endpoint.
func (g *Endpoint) hosts() []string {
	var hosts []string
	for _, s := range []Side{g.options.Admission, g.options.Conversion} {
		name := s.Service + "." + g.options.Registrar.Namespace
		hosts = append(hosts, name+".svc", name)
	}
	if at, err := url.Parse(g.options.URL); err == nil && at.Hostname() != "" {
		hosts = append(hosts, at.Hostname())
	}
	return hosts
}

// rotator returns a rotator for the certificate in files. If files is empty, it returns the rotator
// of the certificates that the operator creates.
func (g *Endpoint) rotator(ctx context.Context, running *sync.WaitGroup, files Files) (*Rotator, error) {
	if files == (Files{}) {
		return g.issue(ctx, running), nil
	}
	pair, err := files.Load()
	if err != nil {
		return nil, err
	}
	rotator := NewRotator(filesSettle, g.options.Registrar.Clock, func() { signal(g.changed) }, nil)
	rotator.Offer(pair)
	running.Go(func() { rotator.Run(ctx) })
	running.Go(func() { files.Watch(ctx, rotator, pair, g.options.Failed) })
	return rotator, nil
}

// filesSettle is the time between the registration of a new CA from files and the use of a
// certificate that this CA has signed.
const filesSettle = 5 * time.Second

// listen starts to listen on the address of a side. If the side listens already, listen does
// nothing.
func (g *Endpoint) listen(ctx context.Context, running *sync.WaitGroup, s *side) error {
	if s.port != 0 {
		return nil
	}
	o := s.options
	clients, err := NewClients(o.ClientCAs)
	if err != nil {
		return err
	}
	s.port, err = g.server.Listen(ctx, net.JoinHostPort(o.Address, strconv.Itoa(o.Port)), s.rotator, clients)
	if err == nil && clients != nil {
		running.Go(func() { clients.Watch(ctx, g.options.Failed) })
	}
	return err
}

// CheckURL returns an error if text is not valid for [EndpointOptions].URL. The API server rejects
// webhooks whose URL has a user, a query or a fragment. Certificates contain only names in ASCII.
func CheckURL(text string) error {
	if text == "" {
		return nil
	}
	at, err := url.Parse(text)
	switch {
	case err != nil:
	case at.User != nil:
		text = at.Redacted()
	case !isASCII(at.Hostname()):
		return fmt.Errorf("must be https://HOST or https://HOST:PORT with a host in ASCII, such as xn--mnchen-3ya.example (got %q)", text)
	case at.Scheme == "https" && at.Hostname() != "" && (at.Path == "" || at.Path == "/") && at.RawQuery == "" && at.Fragment == "":
		return nil
	}
	return fmt.Errorf("must be https://HOST or https://HOST:PORT (got %q)", text)
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// shortestLifetime is the minimum lifetime of a CA. With this lifetime, a CA can be replaced in
// time even if the API server is slow.
const shortestLifetime = 10 * time.Second

// CheckLifetime returns an error if lifetime is not valid for [EndpointOptions].Lifetime.
func CheckLifetime(lifetime time.Duration) error {
	if lifetime < shortestLifetime {
		return fmt.Errorf("must be at least %s (got %s)", shortestLifetime, lifetime)
	}
	return nil
}

// CheckFiles returns an error if the files of the side's certificate cannot be read or are invalid.
// A side without files is valid.
func (s Side) CheckFiles() error {
	if s.Files == (Files{}) {
		return nil
	}
	_, err := s.Files.Load()
	return err
}

// CheckClients returns an error if the files of the side's client CAs cannot be read or are
// invalid.
func (s Side) CheckClients() error {
	_, err := NewClients(s.ClientCAs)
	return err
}

// FilesIn returns the paths of the certificate, the key and the CA in dir. The names of the files
// are tls.crt, tls.key and ca.crt, as in a mounted TLS Secret. If dir contains no certificate,
// FilesIn returns the zero value.
func FilesIn(dir string) Files {
	f := Files{dir + "/tls.crt", dir + "/tls.key", dir + "/ca.crt"}
	if _, err := os.Stat(f.Certificate); err != nil {
		return Files{}
	}
	return f
}
