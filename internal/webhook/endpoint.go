package webhook

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Side is one of the two addresses that the API server asks at: that of admission, or that of conversion.
type Side struct {
	Address string
	// Port 0 is any that is free.
	Port int
	// Service is the name of the Service that leads there, in the operator's namespace.
	Service string
	// Files hold the certificate; empty names are for one that the operator makes.
	Files Files
	// ClientCAs are files. With any, only clients with a certificate of one of these CAs are served.
	ClientCAs []string
}

// EndpointOptions are what an [Endpoint] needs to know.
type EndpointOptions struct {
	Server Options
	// Registrar's InForce is the gate's own.
	Registrar             RegistrarOptions
	Admission, Conversion Side
	// URL is where the API server asks, in place of the Services: https://HOST, to which the port of each side is added, or
	// https://HOST:PORT for both, where only the admission side is listened at.
	URL string
	// Lifetime is how long certificates that the operator makes are good.
	Lifetime time.Duration
	// InForce, if set, is called with the table that the cluster's objects match.
	InForce func(Table)
	// Made is told of each CA that the operator makes.
	Made func(expires time.Time)
	// Failed is told what goes wrong and is tried again.
	Failed func(error)
}

// Endpoint is where the API server asks: a server with its certificates, and what tells the API server of it. It is closed, and
// costs nothing, until there is something to ask; from then on it is open. Make one with [NewEndpoint].
type Endpoint struct {
	options   EndpointOptions
	server    *Server
	registrar *Registrar
	changed   chan struct{}

	mu    sync.Mutex
	table *Table // nil until it is known; guarded by mu

	// Only the goroutine of Run uses the following fields, except for the rotators, once they are set.
	admission, conversion side
	made                  *Rotator      // nil until a side needs it
	opened                chan struct{} // closed when it is open
}

// side is a Side that is open.
type side struct {
	port    int
	rotator *Rotator
}

// NewEndpoint returns a closed endpoint.
func NewEndpoint(o EndpointOptions) *Endpoint {
	g := &Endpoint{options: o, server: NewServer(o.Server), changed: make(chan struct{}, 1), opened: make(chan struct{})}
	o.Registrar.InForce = g.inForce
	g.registrar = NewRegistrar(o.Registrar)
	return g
}

// Serve makes t what is asked. It does not block.
func (g *Endpoint) Serve(t Table) {
	g.mu.Lock()
	g.table = &t
	g.mu.Unlock()
	g.server.Serve(t)
	signal(g.changed)
}

// Withdraw ends the registration of admissions; see [Registrar.Withdraw]. Requests that still come are answered.
func (g *Endpoint) Withdraw(ctx context.Context) error { return g.registrar.Withdraw(ctx) }

// Stop answers what is under way, and nothing after that; see [Server.Stop].
func (g *Endpoint) Stop(ctx context.Context) { g.server.Stop(ctx) }

// Run opens the gate when there is something to ask, and tells the API server, until ctx ends. What it listens at is served
// until the gate is stopped.
func (g *Endpoint) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { g.registrar.Run(ctx) })
	open := false
	for {
		g.mu.Lock()
		table := g.table
		g.mu.Unlock()
		switch {
		case table == nil:
		case len(table.Admissions)+len(table.Conversions) == 0 && !open:
			g.registrar.Want(Wanted{Table: *table})
		case !open:
			if g.openUp(ctx, &running) != nil {
				return
			}
			open = true
			fallthrough
		default:
			g.tell(*table)
		}
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		}
	}
}

// tell has the API server told of t, once there are certificates to be trusted.
func (g *Endpoint) tell(t Table) {
	w := Wanted{
		Table:      t,
		Admission:  Place{Service: g.options.Admission.Service, Bundle: g.admission.rotator.Bundle()},
		Conversion: Place{Service: g.options.Conversion.Service, Bundle: g.conversion.rotator.Bundle()},
	}
	if w.Admission.Bundle == nil || w.Conversion.Bundle == nil {
		return
	}
	if g.options.URL != "" {
		w.Admission.URL, w.Conversion.URL = g.options.urlOf(g.admission.port), g.options.urlOf(g.conversion.port)
	}
	g.registrar.Want(w)
}

// inForce is told what the cluster says.
func (g *Endpoint) inForce(w Wanted) {
	if g.options.InForce != nil {
		g.options.InForce(w.Table)
	}
	select {
	case <-g.opened:
		g.admission.rotator.InForce(w.Admission.Bundle)
		g.conversion.rotator.InForce(w.Conversion.Bundle)
	default: // nothing is wanted
	}
}

// openUp listens and gets certificates. What fails is tried again until ctx ends, whose error it returns.
func (g *Endpoint) openUp(ctx context.Context, running *sync.WaitGroup) error {
	again := newRetry()
	for {
		err := g.tryOpen(ctx, running)
		if err == nil {
			close(g.opened)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.options.Failed(err)
		if !pause(ctx, again.NextBackOff()) {
			return ctx.Err()
		}
	}
}

// tryOpen opens what is not open yet.
func (g *Endpoint) tryOpen(ctx context.Context, running *sync.WaitGroup) error {
	for s, o := range map[*side]*Side{&g.admission: &g.options.Admission, &g.conversion: &g.options.Conversion} {
		if s.rotator != nil {
			continue
		}
		rotator, err := g.rotator(ctx, running, o.Files)
		if err != nil {
			return err
		}
		s.rotator = rotator
	}
	if err := g.listen(ctx, running, &g.admission, g.options.Admission); err != nil {
		return err
	}
	if g.options.oneSided() {
		g.conversion = g.admission
		return nil
	}
	return g.listen(ctx, running, &g.conversion, g.options.Conversion)
}

// oneSided reports whether the admission side is asked for everything.
func (o EndpointOptions) oneSided() bool {
	at, err := url.Parse(o.URL)
	return err == nil && at.Port() != ""
}

// urlOf returns where the API server asks at a port.
func (o EndpointOptions) urlOf(port int) string {
	at, err := url.Parse(o.URL)
	if err != nil || at.Port() != "" {
		return strings.TrimSuffix(o.URL, "/")
	}
	return "https://" + net.JoinHostPort(at.Hostname(), strconv.Itoa(port))
}

// issue returns the rotator of the certificates that the operator creates, one for both sides.
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

// hosts are the names by which the API server knows the gate.
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

// rotator returns the rotator of the given certificate files, or of created certificates without files.
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
	running.Go(func() {
		if err := files.Watch(ctx, rotator, pair, g.options.Failed); err != nil {
			g.options.Failed(err)
		}
	})
	return rotator, nil
}

// filesSettle is how long a new CA of given files is known to the API server before its certificate is used.
const filesSettle = 5 * time.Second

// listen opens a side, once.
func (g *Endpoint) listen(ctx context.Context, running *sync.WaitGroup, s *side, o Side) error {
	if s.port != 0 {
		return nil
	}
	clients, err := NewClients(o.ClientCAs)
	if err != nil {
		return err
	}
	s.port, err = g.server.Listen(ctx, net.JoinHostPort(o.Address, strconv.Itoa(o.Port)), s.rotator, clients)
	if err == nil && clients != nil {
		running.Go(func() {
			if err := clients.Watch(ctx, g.options.Failed); err != nil {
				g.options.Failed(err)
			}
		})
	}
	return err
}

// CheckURL returns what is wrong with [EndpointOptions].URL.
func CheckURL(text string) error {
	at, err := url.Parse(text)
	if err != nil || text != "" && (at.Scheme != "https" || at.Hostname() == "" || at.Path != "" && at.Path != "/" || at.RawQuery != "") {
		return fmt.Errorf("it is %q, must be https://HOST or https://HOST:PORT", text)
	}
	return nil
}

// shortestLifetime is what an API server that is slow to answer still lets be replaced in time.
const shortestLifetime = 10 * time.Second

// CheckLifetime returns what is wrong with [EndpointOptions].Lifetime.
func CheckLifetime(lifetime time.Duration) error {
	if lifetime < shortestLifetime {
		return fmt.Errorf("it is %s, must be at least %s", lifetime, shortestLifetime)
	}
	return nil
}

// CheckFiles returns what is wrong with the files of the side's certificate.
func (s Side) CheckFiles() error {
	if s.Files == (Files{}) {
		return nil
	}
	_, err := s.Files.Load()
	return err
}

// CheckClients returns what is wrong with the files of the CAs of the side's clients.
func (s Side) CheckClients() error {
	_, err := NewClients(s.ClientCAs)
	return err
}

// FilesIn returns the files of a pair as they are called in a mounted Secret, if they are in dir; empty names if not.
func FilesIn(dir string) Files {
	f := Files{dir + "/tls.crt", dir + "/tls.key", dir + "/ca.crt"}
	if _, err := os.Stat(f.Certificate); err != nil {
		return Files{}
	}
	return f
}
