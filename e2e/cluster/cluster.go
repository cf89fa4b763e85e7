// Package cluster gives tests a real Kubernetes API: a *cluster* is a running control plane of e2e/controlplane, a
// *namespace* in it is a test's own.
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }
//
//	func TestPodsOfADeploymentBecomeReady(t *testing.T) {
//		c := cluster.Start(t)
//		namespace := c.Namespace(t)
//		client, err := kubernetes.NewForConfig(c.Config())
//
// Starting one takes two to four seconds and 300 MB, so the tests of a package share it. A cluster ends with the process
// that started it, even if that is killed; nothing is left behind.
package cluster

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a control plane that serves. Its methods may be called from many goroutines at once.
type Cluster struct {
	process    *process
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
}

// shared is the cluster of the tests of this process, as a process runs the tests of one package. It starts when the
// first test asks for it, and at most once: after a failure all tests that ask for it fail at once.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Start returns the cluster that all tests of the package share. The first call starts it, after building the control
// plane, which takes minutes the first time. The test ends if that fails.
//
// What tests keep in the cluster has to be theirs: objects in a [Cluster.Namespace], or with names of their own.
func Start(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = startEphemeral() })
	if shared.err != nil {
		t.Fatalf("start the control plane: %v", shared.err)
	}
	return shared.cluster
}

// Run runs the tests of m, stops the cluster they shared if there is one, and returns the exit code. Call it from
// TestMain. Without it the cluster stops as well, but only after the test process has ended.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Launch starts a cluster of the test's own with its data in dir, for tests that stop the API server or kill it. It is
// stopped when the test ends, unless it was before. See [New].
func Launch(t testing.TB, dir string) *Cluster {
	t.Helper()
	c, err := New(dir)
	if err != nil {
		t.Fatalf("start a control plane in %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// New starts a cluster with its data in dir, after building the control plane, for programs that are no tests. On a dir
// that a cluster ran in before, it serves the same objects, on the same port if it is free, to the same credentials. The
// caller stops it.
func New(dir string) (*Cluster, error) { return start(dir) }

// startEphemeral starts a cluster in a new temporary directory, which the control plane removes when it stops.
func startEphemeral() (*Cluster, error) {
	dir, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		return nil, err
	}
	return start(dir, "--ephemeral")
}

func start(dir string, flags ...string) (*Cluster, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(program, dir, flags...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{process: p, kubeconfig: p.file("kubeconfig")}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err == nil {
		c.config.QPS = -1
		c.client, err = kubernetes.NewForConfig(c.config)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return c, nil
}

// Kubeconfig returns the path of a kubeconfig file for the cluster's administrator.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Config returns what a client of the cluster's administrator is made from, the caller's to change. Requests are not
// throttled.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Namespace makes a namespace for t, named after it, and returns its name. It is deleted when t ends, but not waited
// for: that takes 5 s, and its name is never used again.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	namespace, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix(t.Name())},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := c.client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !c.process.ended() {
			t.Errorf("delete namespace %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namePrefix returns what the name of a namespace for the test called name begins with: readable, and short enough for
// names made from the namespace's to be labels.
func namePrefix(name string) string {
	name = notInNames.ReplaceAllString(strings.ToLower(name), "-")
	name = strings.TrimPrefix(name, "test")
	return "t-" + strings.Trim(name[:min(len(name), 36)], "-") + "-"
}

// Stop stops a cluster of the caller's own and returns when it has ended, or an error if it did not end well. One stopped
// before is left as it is. The shared one is for Run to stop.
func (c *Cluster) Stop() error { return c.process.stop() }

// Kill ends the control plane as a power cut would, and returns when it has ended.
func (c *Cluster) Kill() { c.process.kill() }
