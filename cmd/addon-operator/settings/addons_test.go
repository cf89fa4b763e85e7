package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKnownHostsOfAddonRepositoriesAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "known_hosts")
	s := Addons{Mode: AddonsAuto, Retry: "0", KnownHosts: file}
	if err := s.check(); err == nil || !strings.Contains(err.Error(), "--addons-known-hosts: "+file) {
		t.Errorf("no file: %v", err)
	}
	for text, good := range map[string]bool{
		"git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n": true,
		"":                                   true,
		"git.example.com ssh-ed25519 AAAA\n": false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.check(); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
