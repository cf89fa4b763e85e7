package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/sdk/sdktest"
)

const (
	shop = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: red}
spec: {template: {spec: {containers: [{name: shop, image: "shop:1"}, {name: proxy, image: "proxy:2"}]}}}
`
	mail = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: mail, namespace: blue}
spec: {template: {spec: {containers: [{name: mail, image: "mail:3"}, {name: proxy, image: "proxy:2"}]}}}
`
)

func TestImagesOfAllDeploymentsAreListedOnce(t *testing.T) {
	test := sdktest.Module(t, "images", sdktest.Go(hook()))
	test.SetValues("images: {used: []}")
	test.Put(shop)
	test.Put(mail)
	r := test.Ordered("beforeHelm").Must()
	if diff := cmp.Diff([]any{"mail:3", "proxy:2", "shop:1"}, test.Value("images.used")); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	uses := map[string]float64{}
	for _, m := range r.Metrics {
		uses[m.Labels["image"]] += m.Value
	}
	if uses["proxy:2"] != 2 || uses["mail:3"] != 1 {
		t.Errorf("metrics are %v", r.Metrics)
	}
}

func TestListFollowsTheDeployments(t *testing.T) {
	test := sdktest.Module(t, "images", sdktest.Go(hook()))
	test.SetValues("images: {used: []}")
	test.Put(shop)
	test.Synchronize("deployments")
	test.Put(mail)
	test.Events().Must()
	test.Remove("Deployment", "red", "shop")
	test.Events().Must()
	if diff := cmp.Diff([]any{"mail:3", "proxy:2"}, test.Value("images.used")); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

func TestWithoutDeploymentsTheListIsEmpty(t *testing.T) {
	test := sdktest.Module(t, "images", sdktest.Go(hook()))
	test.SetValues("images: {used: []}")
	test.Ordered("beforeHelm").Must()
	if diff := cmp.Diff([]any{}, test.Value("images.used")); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}
