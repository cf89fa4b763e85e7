// Package cluster provides a real Kubernetes API for tests: a *cluster* is a running control plane of
// e2e/controlplane, in which each test has its own *namespace*.
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }
//
//	func TestPodsOfADeploymentBecomeReady(t *testing.T) {
//		c := cluster.Start(t)
//		namespace := c.Namespace(t)
//		client, err := kubernetes.NewForConfig(c.Config())
//
// A start takes two to four seconds and 300 MB of memory, so the tests of a package share one cluster. A cluster stops
// when the process that started it ends, even if that process is killed. A cluster that [Start] has started leaves no
// files or processes behind.
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

// Cluster is a running control plane. It is safe for concurrent use.
type Cluster struct {
	process    *process
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
}

// shared is the cluster that [Start] returns. The tests of a process, which are the tests of one package, share it.
// The first call of Start starts the cluster. If the first call fails, all further calls fail at once.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Start returns the cluster that all tests of the package share. The first call builds the control plane and starts
// it. The first build on a machine takes minutes. If the start fails, Start fails the test.
//
// Tests must use only their own objects in the cluster: in a [Cluster.Namespace], or with unique
// names.
func Start(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = startEphemeral() })
	if shared.err != nil {
		t.Fatalf("start the control plane: %v", shared.err)
	}
	return shared.cluster
}

// Run runs the tests of m, stops the shared cluster if there is one, and returns the exit code. Call it from TestMain.
// Without Run, the cluster stops only after the test process has ended, and nothing reports its errors.
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

// Launch starts a separate cluster with its data in dir, for tests that stop or kill the API server. The cluster is
// stopped at the end of the test. See [New].
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

// New builds the control plane and starts a cluster with its data in dir. New is for programs other than tests. If dir
// has the data of an earlier cluster, the new one serves the same objects with the same credentials, and on the same
// port if that is free. The caller must stop the cluster.
func New(dir string) (*Cluster, error) { return start(dir) }

// startEphemeral starts a cluster in a new temporary directory. The control plane removes the directory when it
// stops.
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

// Kubeconfig returns the path of a kubeconfig file of a cluster administrator.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Config returns a client config of a cluster administrator, without a rate limit. The config is a copy, which the
// caller may change.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Namespace creates a namespace for t and returns its name, such as t-converge-x7k2p for TestConverge. The deletion of
// the namespace begins at the end of t. Nothing waits for the deletion, because it takes 5 s and the name is never used
// again.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	namespace, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix(t.Name())},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := c.client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !c.process.ended() {
			t.Errorf("delete namespace %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}

// AwaitGarbageCollector waits until the garbage collector of the cluster deletes objects. The collector begins some
// time after the API server is ready, and 30 s later if its first attempt fails. A test needs this wait if an operation
// of a hook deletes an object with propagation Foreground: the operator waits for the collector only for a limited
// time, and then reports an error.
func (c *Cluster) AwaitGarbageCollector(t testing.TB, namespace string) {
	t.Helper()
	foreground, maps := metav1.DeletePropagationForeground, c.client.CoreV1().ConfigMaps(namespace)
	probe, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}, metav1.CreateOptions{})
	if err == nil {
		err = maps.Delete(t.Context(), probe.Name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	}
	for err == nil {
		time.Sleep(20 * time.Millisecond)
		_, err = maps.Get(t.Context(), probe.Name, metav1.GetOptions{})
	}
	if !apierrors.IsNotFound(err) {
		t.Fatalf("wait for the garbage collector: %v", err)
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namePrefix returns the first part of the names of namespaces for the test called name. It is so short that the whole
// name of the namespace fits in a label value.
func namePrefix(name string) string {
	name = notInNames.ReplaceAllString(strings.ToLower(name), "-")
	name = strings.TrimPrefix(name, "test")
	return "t-" + strings.Trim(name[:min(len(name), 36)], "-") + "-"
}

// Stop stops the cluster and waits until its process has ended. Stop returns an error if the cluster has failed
// already, or does not stop in time. If the cluster was already stopped, Stop does nothing. Do not stop the shared
// cluster, because Run does that.
func (c *Cluster) Stop() error { return c.process.stop() }

// Kill kills the process of the control plane without a shutdown, and waits until the process has ended.
func (c *Cluster) Kill() { c.process.kill() }
