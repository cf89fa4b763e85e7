package helm_test

import (
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// meetWithin is the maximum time for which the requests of a meeting wait for each other.
const meetWithin = 90 * time.Second

// A meeting makes concurrent requests wait until a given number of them are in progress at the same time.
type meeting struct {
	mu   sync.Mutex
	lack int
	met  chan struct{}
}

func newMeeting(of int) *meeting { return &meeting{lack: of, met: make(chan struct{})} }

// join is called by each request. It waits until the given number of requests have called join, and returns false if
// this takes longer than meetWithin.
func (m *meeting) join() bool {
	m.mu.Lock()
	if m.lack--; m.lack == 0 {
		close(m.met)
	}
	m.mu.Unlock()
	select {
	case <-m.met:
		return true
	case <-time.After(meetWithin):
		return false
	}
}

const independentKinds = `apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports: [{port: 80}]
`

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: example.com/main}]
`

func TestAdjacentIndependentKindsAreCreatedSideBySideAndOthersBehindThem(t *testing.T) {
	t.Parallel()
	together := newMeeting(3)
	k := start(t, each(func(r *http.Request) {
		kind := path.Base(r.URL.Path)
		switch {
		case r.Method != http.MethodPost:
		case kind == "serviceaccounts" || kind == "configmaps" || kind == "services":
			if !together.join() {
				t.Errorf("%s are created while no object of the other kinds is", kind)
			}
		}
	}))
	r := module(t, "web", files{"Chart.yaml": chartYAML, "templates/all.yaml": independentKinds})
	k.apply(t, r)
}

func TestKindsThatMayNeedOthersAreCreatedBehindThem(t *testing.T) {
	t.Parallel()
	var k fixture
	k = start(t, each(func(r *http.Request) {
		if r.Method != http.MethodPost || path.Base(r.URL.Path) != "deployments" {
			return
		}
		core := k.kube.CoreV1()
		_, account := core.ServiceAccounts(k.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		_, settings := core.ConfigMaps(k.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		_, service := core.Services(k.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		for _, err := range []error{account, settings, service} {
			if err != nil {
				t.Errorf("before the Deployment: %v", err)
			}
		}
	}))
	r := module(t, "web", files{"Chart.yaml": chartYAML, "templates/all.yaml": deployment + "---\n" + independentKinds})
	k.apply(t, r)
}

func TestAnObjectThatIsRefusedKeepsNoOtherFromBeingCreated(t *testing.T) {
	t.Parallel()
	k := start(t)
	refused := strings.Replace(independentKinds, "{port: 80}", "{port: -1}", 1)
	r := module(t, "web", files{"Chart.yaml": chartYAML, "templates/all.yaml": refused + "---\n" + deployment})
	_, err := k.Upgrade(t.Context(), r, k.render(t, r))
	if err == nil || strings.Count(err.Error(), "spec.ports[0].port") != 1 {
		t.Errorf("error is %v, want one that says once what is wrong with the Service", err)
	}
	if _, ok := k.configMap(t, "web"); !ok {
		t.Error("the ConfigMap is absent")
	}
	if _, err := k.kube.CoreV1().ServiceAccounts(k.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := k.kube.AppsV1().Deployments(k.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
