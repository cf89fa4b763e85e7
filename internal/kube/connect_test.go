package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
)

func TestConnectReadsKubeconfigs(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // outside of any cluster
	t.Setenv("HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["near"] = &clientcmdapi.Cluster{Server: "https://near:6443"}
	config.Clusters["far"] = &clientcmdapi.Cluster{Server: "https://far:6443"}
	config.Contexts["near"] = &clientcmdapi.Context{Cluster: "near"}
	config.Contexts["far"] = &clientcmdapi.Context{Cluster: "far", Namespace: "addons"}
	config.CurrentContext = "near"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	config = clientcmdapi.NewConfig()
	config.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://other:6443"}
	config.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", Namespace: "more"}
	config.CurrentContext = "other"
	if err := clientcmd.WriteToFile(*config, other); err != nil {
		t.Fatal(err)
	}
	list := strings.Join([]string{path + "x", path, other}, string(filepath.ListSeparator))
	for name, test := range map[string]struct {
		options         kube.Options
		host, namespace string
		qps             float32
	}{
		"the current context": {kube.Options{Kubeconfig: path}, "https://near:6443", "", -1},
		"another context":     {kube.Options{Kubeconfig: path, Context: "far"}, "https://far:6443", "addons", -1},
		"another server":      {kube.Options{Kubeconfig: path, Server: "http://localhost:8001"}, "http://localhost:8001", "", -1},
		"the first of a list": {kube.Options{Kubeconfig: list}, "https://near:6443", "", -1},
		"a later of a list":   {kube.Options{Kubeconfig: list, Context: "other"}, "https://other:6443", "more", -1},
		"only a server":       {kube.Options{Server: "http://localhost:8001"}, "http://localhost:8001", "", -1},
		"a limit of requests": {kube.Options{Kubeconfig: path, QPS: 20, Burst: 40}, "https://near:6443", "", 20},
	} {
		got, namespace, err := kube.Connect(test.options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Host != test.host || namespace != test.namespace || got.QPS != test.qps || got.Burst != test.options.Burst {
			t.Errorf("%s: %s, namespace %q, %v requests a second and %d more", name, got.Host, namespace, got.QPS, got.Burst)
		}
		if got.UserAgent != "addon-operator" {
			t.Errorf("%s: user agent %q", name, got.UserAgent)
		}
	}
	for name, options := range map[string]kube.Options{
		"no cluster":      {},
		"no such file":    {Kubeconfig: path + "x"},
		"no such context": {Kubeconfig: path, Context: "nowhere"},
	} {
		if config, _, err := kube.Connect(options); err == nil {
			t.Errorf("%s: connected to %s", name, config.Host)
		}
	}
	t.Setenv("KUBECONFIG", path)
	if got, _, err := kube.Connect(kube.Options{}); err != nil || got.Host != "https://near:6443" {
		t.Errorf("with KUBECONFIG: %v, %v", got, err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // in a cluster, but without a service account
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if o := (kube.Options{Kubeconfig: path}); o.InCluster() || o.PodNamespace() != "" {
		t.Errorf("a kubeconfig is the cluster of the pod, in namespace %q", o.PodNamespace())
	}
	if _, err := os.Stat("/var/run/secrets/kubernetes.io"); err == nil {
		t.Skip("this is a pod")
	}
	if _, _, err := kube.Connect(kube.Options{}); err == nil || !strings.Contains(err.Error(), "pod") {
		t.Errorf("in a pod without a service account: %v", err)
	}
}

func TestAClusterIsKnownByItsID(t *testing.T) {
	t.Parallel()
	config, namespace, err := kube.Connect(kube.Options{Kubeconfig: cluster.Start(t).Kubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	s := fixtureOf(t, config, namespace)
	id, err := s.client.ClusterID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	system, err := s.api.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil || id != string(system.UID) {
		t.Errorf("the id is %q, want %q, %v", id, system.UID, err)
	}
}
