package story

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/e2e/disk"
	"addon-operator/internal/lease"
	"addon-operator/store"
)

var faultCommands = map[string]command{
	"kubeconfig-of": restrictUser,
	"proxy":         proxyServer,
	"small-disk":    useSmallDisk,
	"fill-disk":     fillDisk,
	"free-disk":     freeDisk,
	"shift-ticks":   shiftTicks,
	"certificate":   writeCertificate,
}

// restrictUser implements the command "kubeconfig-of USER FILE". It writes a kubeconfig for USER to FILE. The user has
// only the rights that RBAC objects of the story grant. restrictUser waits until the API server knows that the user may
// get the Lease, because an operator without this right ends.
func restrictUser(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("kubeconfig-of USER FILE")
	}
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = args[0]
	}
	restricted := rest.CopyConfig(w.config)
	restricted.Impersonate.UserName = args[0]
	user, err := kubernetes.NewForConfig(restricted)
	if err != nil {
		return err
	}
	if err := wait(func() error {
		_, err := user.CoordinationV1().Leases(w.namespace).Get(ctx(), lease.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, w.path(args[1]))
}

// A faultyServer is a proxy between the operator and the API server. The story selects the fault of the proxy.
type faultyServer struct {
	server *httptest.Server
	fault  atomic.Pointer[string]
}

// Faults that the proxy can have. Any other word means no fault.
const (
	slowServer     = "slow"     // each request is forwarded after 6 s
	limitingServer = "limiting" // requests are answered with status 429
	failingServer  = "failing"  // requests are answered with status 500
	aheadServer    = "ahead"    // the header Date of responses is an hour ahead
	otherServer    = "other"    // the namespace kube-system has another UID, as if the cluster was another one
)

// otherCluster is the UID of the namespace kube-system if the fault is otherServer. The UID of this namespace
// identifies a cluster.
const otherCluster = "00000000-0000-4000-8000-000000000000"

// proxyServer implements the commands of a proxy between the operator and the API server. "proxy start FILE" starts
// the proxy and writes a kubeconfig for it to FILE. "proxy slow|limiting|failing|ahead|other|well" selects the fault of
// the proxy. The faults "slow", "limiting" and "failing" do not affect requests for watches and Leases.
func proxyServer(w *environment, _ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "start" && w.proxy == nil:
		return w.startProxy(args[1])
	case len(args) == 1 && w.proxy != nil:
		w.proxy.fault.Store(&args[0])
		return nil
	default:
		return usage("proxy start FILE | proxy slow|limiting|failing|ahead|other|well")
	}
}

func (w *environment) startProxy(file string) error {
	target, err := url.Parse(w.config.Host)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(w.config)) // without credentials, because the forwarded requests have their own
	if err != nil {
		return err
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, err error) {
			http.Error(rw, err.Error(), http.StatusBadGateway)
		},
	}
	p := &faultyServer{}
	well := "well"
	p.fault.Store(&well)
	forward.ModifyResponse = p.falsify
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !p.spoils(rw, r) {
			forward.ServeHTTP(rw, r)
		}
	}))
	p.server.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	w.t.Cleanup(p.server.CloseClientConnections)
	w.proxy = p
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		c.Server = p.server.URL
		c.CertificateAuthorityData = certificateOf(p.server.Certificate())
	}
	return clientcmd.WriteToFile(*config, w.path(file))
}

func certificateOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// spoils applies the faults slowServer, limitingServer and failingServer to a request. spoils returns true if it has
// answered the request. The proxy must forward the request only if spoils returns false.
func (p *faultyServer) spoils(rw http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "true" || strings.Contains(r.URL.Path, "/leases/") {
		return false
	}
	switch *p.fault.Load() {
	case slowServer:
		select {
		case <-time.After(6 * time.Second):
		case <-r.Context().Done():
		}
	case limitingServer:
		rw.Header().Set("Retry-After", "1")
		http.Error(rw, "too many requests, please try again later", http.StatusTooManyRequests)
		return true
	case failingServer:
		http.Error(rw, "etcdserver: request timed out", http.StatusInternalServerError)
		return true
	}
	return false
}

// falsify applies the faults aheadServer and otherServer to a response of the API server.
func (p *faultyServer) falsify(r *http.Response) error {
	switch *p.fault.Load() {
	case aheadServer:
		date, err := http.ParseTime(r.Header.Get("Date"))
		if err != nil {
			return err
		}
		r.Header.Set("Date", date.Add(time.Hour).Format(http.TimeFormat))
	case otherServer:
		if r.Request.URL.Path != "/api/v1/namespaces/kube-system" {
			return nil
		}
		var namespace map[string]any
		err := json.NewDecoder(r.Body).Decode(&namespace)
		if err = errors.Join(err, r.Body.Close(), unstructured.SetNestedField(namespace, otherCluster, "metadata", "uid")); err != nil {
			return err
		}
		text, err := json.Marshal(namespace)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	return nil
}

// useSmallDisk implements the command "small-disk SIZE". It creates a file system of this size, on which operators
// that are started later have their store.
func useSmallDisk(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("small-disk SIZE")
	}
	w.disk = disk.New(w.t, args[0])
	return nil
}

// fillDisk implements the command "fill-disk". It keeps the small disk full until the command free-disk, and returns
// when the disk is full. It also uses the space that the operator has reserved for itself.
func fillDisk(w *environment, _ *testscript.TestScript, _ []string) error {
	if w.disk == nil || w.filling != nil {
		return errors.New("there is no small disk with room")
	}
	// Remove this file first. Otherwise the operator would remove it when the disk is full, and could use the space
	// before Fill does.
	if err := os.Remove(w.store() + ".ballast"); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.disk.Fill(ctx) }()
	w.filling = func() error { end(); return <-done }
	w.t.Cleanup(end)
	return wait(func() error {
		var fs unix.Statfs_t
		if err := unix.Statfs(w.disk.Dir, &fs); err != nil || fs.Bavail == 0 {
			return err
		}
		return errors.New("the disk still has room")
	})
}

// freeDisk implements the command "free-disk". It frees the space that the command fill-disk uses.
func freeDisk(w *environment, _ *testscript.TestScript, _ []string) error {
	if w.filling == nil {
		return errors.New("the disk is not full")
	}
	err := w.filling()
	w.filling = nil
	return err
}

// store returns the path of the operator's store.
func (w *environment) store() string {
	if w.disk != nil {
		return w.disk.Dir + "/store.db"
	}
	return w.path("store.db")
}

// shiftTicks implements the command "shift-ticks DURATION". In the store of a stopped operator, it adds DURATION to
// the time of each schedule's last tick. If DURATION is negative, the operator seems to have stopped earlier. If it is
// positive, the operator's clock seems to have been ahead.
func shiftTicks(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 1 || w.operator != nil {
		return usage("shift-ticks DURATION, while no operator runs")
	}
	shift, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	db, err := store.Open(w.store(), store.Options{Clock: time.Now})
	if err != nil {
		return err
	}
	moved := 0
	err = db.Update(func(tx *store.Tx) error {
		ticks := map[string]time.Time{}
		for k := range tx.Range(store.At(store.Ticks)) {
			tick, _, err := store.Load[time.Time](tx, k)
			if err != nil {
				return err
			}
			ticks[string(k)] = tick
		}
		for k, tick := range ticks {
			if err := store.Save(tx, store.Key(k), tick.Add(shift)); err != nil {
				return err
			}
			moved++
		}
		return nil
	})
	if err == nil && moved == 0 {
		err = errors.New("no schedule has ticked")
	}
	return errors.Join(err, db.Close())
}
