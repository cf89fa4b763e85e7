package charts

import (
	"testing"

	"addon-operator/store"
)

func TestObjectsThatMayHoldDataAreKnownByTheirKind(t *testing.T) {
	t.Parallel()
	for object, want := range map[[2]string]bool{
		{"v1", "Secret"}:                                true,
		{"v1", "Namespace"}:                             true,
		{"v1", "PersistentVolume"}:                      true,
		{"v1", "PersistentVolumeClaim"}:                 true,
		{"v1", "ConfigMap"}:                             false,
		{"v1", "Service"}:                               false,
		{"apps/v1", "StatefulSet"}:                      false,
		{"batch/v1", "Job"}:                             false,
		{"rbac.authorization.k8s.io/v1", "ClusterRole"}: false,
		{"networking.k8s.io/v1", "Ingress"}:             false,
		{"storage.k8s.io/v1", "StorageClass"}:           false,
		{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"}: false,
		{"flowcontrol.apiserver.k8s.io/v1", "FlowSchema"}:                   false,
		{"internal.apiserver.k8s.io/v1alpha1", "StorageVersion"}:            false,
		// CustomResourceDefinitions, and custom resources, even if their API group ends with k8s.io.
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition"}: true,
		{"snapshot.storage.k8s.io/v1", "VolumeSnapshot"}:        true,
		{"cert-manager.io/v1", "Certificate"}:                   true,
		{"example.com/v1", "Secret"}:                            true,
	} {
		if got := keepsData(store.Object{APIVersion: object[0], Kind: object[1], Name: "x"}); got != want {
			t.Errorf("%s of %s may hold data: %t, want %t", object[1], object[0], got, want)
		}
	}
}

func TestAModuleTakesOverObjectsOfItsChart(t *testing.T) {
	t.Parallel()
	deployment := store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	older, elsewhere, renamed, otherKind, otherGroup := deployment, deployment, deployment, deployment, deployment
	older.APIVersion = "apps/v1beta1"
	elsewhere.Namespace = "office"
	renamed.Name = "web-2"
	otherKind.Kind = "StatefulSet"
	otherGroup.APIVersion = "example.com/v1"
	secret := store.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "password"}
	config := store.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	chart := []store.Object{config, deployment}
	for name, test := range map[string]struct {
		takeover Takeover
		release  []store.Object
		want     bool
	}{
		"objects that are not known":        {Takeover{objects: chart}, nil, true},
		"same object":                       {Takeover{objects: chart}, []store.Object{secret, deployment}, true},
		"same object of another version":    {Takeover{objects: chart}, []store.Object{older}, true},
		"object of another namespace":       {Takeover{objects: chart}, []store.Object{elsewhere}, false},
		"object of another name":            {Takeover{objects: chart}, []store.Object{renamed}, false},
		"object of another kind":            {Takeover{objects: chart}, []store.Object{otherKind}, false},
		"object of another group":           {Takeover{objects: chart}, []store.Object{otherGroup}, false},
		"other object that may hold data":   {Takeover{objects: chart}, []store.Object{secret}, false},
		"data, and hooks that may take it":  {Takeover{objects: chart, hooks: true}, []store.Object{renamed, secret}, true},
		"no data, and hooks":                {Takeover{objects: chart, hooks: true}, []store.Object{renamed}, false},
		"chart that cannot be rendered":     {Takeover{unknown: true}, []store.Object{renamed}, true},
		"no chart, and nothing is taken":    {Takeover{}, []store.Object{deployment, secret}, false},
		"unknown objects, and no chart":     {Takeover{}, nil, false},
		"unknown chart, and an empty other": {Takeover{unknown: true}, nil, true},
	} {
		if got := test.takeover.Of(&store.Release{Objects: test.release}); got != test.want {
			t.Errorf("%s: taken over %t, want %t", name, got, test.want)
		}
	}
}
