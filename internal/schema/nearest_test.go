package schema_test

import (
	"testing"

	"addon-operator/internal/schema"
)

func TestNearestWordIsSuggestedForASlip(t *testing.T) {
	known := []string{"certManager", "ingressNginx", "prometheus", "global", "web"}
	for word, want := range map[string]string{
		"certManger": "certManager", "ingresNginx": "ingressNginx", "promehteus": "prometheus", "golbal": "global", "wbe": "web",
		"certmanager": "certManager", "velero": "", "x": "", "": "", "nginx": "",
	} {
		if got := schema.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
