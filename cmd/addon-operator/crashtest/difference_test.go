package crashtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// object parses an object in YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFieldsLeaveOutWhatTheServerAndControllersSet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object   string
		sections bool
		want     fields
	}{
		"metadata": {
			object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n, uid: u, resourceVersion: '1', generation: 2, labels: {a.b/c: d}}, data: {x: '1'}}",
			want:   fields{`metadata.labels["a.b/c"]`: "d", "data.x": "1"},
		},
		"status of a built-in kind": {
			object: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2}, status: {readyReplicas: 1}}",
			want:   fields{"metadata": "{}", "spec.replicas": "2"},
		},
		"status of a custom resource": {
			object: "{apiVersion: shop.example.com/v1, kind: Order, metadata: {name: a}, status: {items: [a, {b: c}], none: []}}",
			want:   fields{"metadata": "{}", "status.items[0]": "a", "status.items[1].b": "c", "status.none": "[]"},
		},
		"addresses of a Service": {
			object: "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], type: ClusterIP}}",
			want:   fields{"metadata": "{}", "spec.type": "ClusterIP"},
		},
		"sections of the ConfigMap": {
			object:   "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {web: 'replicas: 2', broken: '{'}}",
			sections: true,
			want:     fields{"metadata": "{}", "data.web.replicas": "2", "data.broken": "{"},
		},
	} {
		if diff := cmp.Diff(test.want, fieldsOf(object(t, test.object), test.sections)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestObjectsOfControllersAreNotCompared(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}":                                                                               true,
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-apiserver-legacy-service-account-token-tracking, namespace: kube-system}}":    false,
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt}}":                                                                false,
		"{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}}":                                                    false,
		"{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: shop}}":                                                       true,
		"{apiVersion: v1, kind: Event, metadata: {name: a}}":                                                                                   false,
		"{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {owner: helm}}}":                                                           false,
		"{apiVersion: v1, kind: Pod, metadata: {name: a, ownerReferences: [{kind: ReplicaSet, name: a, uid: u, controller: true}]}}":           false,
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [{kind: ConfigMap, name: b, uid: u, controller: false}]}}":     true,
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.shop, labels: {app: shop}}}":                            true,
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.apps, labels: {" + automanaged + ": onstart}}}":         false,
		"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: csr-1}}":                                       false,
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}":                                                               false,
		"{apiVersion: shop.example.com/v1, kind: Order, metadata: {name: a, namespace: n, labels: {owner: shop}, annotations: {owner: helm}}}": true,
	} {
		if got := isCompared(object(t, text)); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestDifferencesSayWhatAndHow(t *testing.T) {
	t.Parallel()
	counter, made, values := thing{"ConfigMap", "shop", "counter"}, thing{"Role", "shop", "made"}, thing{Kind: globalKind}
	secret := thing{"Secret", "shop", "login"}
	long := strings.Repeat("x", 100)
	got := diff(
		state{counter: {"data.count": "1", "data.same": "s", "data.long": long + "a"}, values: {"global.list": "[]"}, secret: {"data.user": "YQ=="}},
		state{counter: {"data.count": "2", "data.same": "s", "data.long": long + "b"}, values: {"global.list[0]": "a", "global.password": "b"}, made: {"rules": "[]"}, secret: {"data.user": "Yg=="}},
	)
	want := []string{
		"ConfigMap shop/counter: data.count: 1 → 2",
		"ConfigMap shop/counter: data.long: …" + strings.Repeat("x", 19) + "a → …" + strings.Repeat("x", 19) + "b",
		"Role shop/made: does not exist → exists",
		"Secret shop/login: data.user: (redacted) → (redacted)",
		"global values: global.list: [] → (none)",
		"global values: global.list[0]: (none) → a",
		"global values: global.password: (none) → (redacted)",
	}
	var texts []string
	for _, d := range got {
		texts = append(texts, d.String())
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestWhatDiffersBetweenUndisturbedRunsIsNotCompared(t *testing.T) {
	t.Parallel()
	id, job := thing{"ConfigMap", "shop", "id"}, func(name string) thing { return thing{"Job", "shop", name} }
	first := state{id: {"data.id": "1", "data.kept": "k"}, job("run-1"): {"spec": "a"}, job("named"): {"spec": "n"}}
	n := findNoise(first, state{id: {"data.id": "2", "data.kept": "k"}, job("run-2"): {"spec": "a"}, job("named"): {"spec": "n"}})
	if diff := cmp.Diff([]string{"ConfigMap shop/id: data.id", "Job shop/run-1", "Job shop/run-2"}, n.texts()); diff != "" {
		t.Errorf("noise (-want +got):\n%s", diff)
	}
	compare := func(got state) (texts []string) {
		for _, d := range diff(n.apply(first, first), n.apply(got, first)) {
			texts = append(texts, d.String())
		}
		return texts
	}
	if texts := compare(state{id: {"data.id": "3", "data.kept": "k"}, job("run-3"): {"spec": "a"}, job("named"): {"spec": "n"}}); texts != nil {
		t.Errorf("other random values: %v", texts)
	}
	want := []string{"ConfigMap shop/id: data.kept: k → l", "Job shop/(random names): number: 1 → 2", "Job shop/named: exists → does not exist"}
	if diff := cmp.Diff(want, compare(state{id: {"data.kept": "l"}, job("run-3"): {"spec": "a"}, job("run-4"): {"spec": "a"}})); diff != "" {
		t.Errorf("real differences (-want +got):\n%s", diff)
	}
}
