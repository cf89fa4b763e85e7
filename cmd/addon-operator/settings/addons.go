package settings

import (
	"slices"
	"strings"
	"time"

	repository "addon-operator/internal/catalog/source"
	"addon-operator/internal/retry"
)

// The values of --addons.
const (
	AddonsAuto = "auto"
	AddonsOn   = "on"
	AddonsOff  = "off"
)

var addonsModes = []string{AddonsAuto, AddonsOn, AddonsOff}

// Addons are the settings for addons configurations.
type Addons struct {
	// Mode is auto, on or off.
	Mode    string
	Develop bool
	Resync  time.Duration
	// Retry is one delay, or two delays in the form FIRST..LONGEST.
	Retry string
	// KnownHosts is a file of ssh host keys; "" means none.
	KnownHosts string
}

// declare declares the flags of the settings for addons configurations.
func (s *Addons) declare(d *declarations) {
	d.text(&s.Mode, "addons", AddonsAuto, "policy for addons configurations: auto processes them when their CRDs are installed, on also warns if these are missing, off ignores them", "ADDON_OPERATOR_ADDONS")
	d.toggle(&s.Develop, "addons-develop-mode", "allow addon repositories over http and in local files", "ADDON_OPERATOR_ADDONS_DEVELOP_MODE", "APP_DEVELOP_MODE")
	d.duration(&s.Resync, "addons-resync", 10*time.Minute, "delay before a failed addons configuration is processed again; 0 disables it", "ADDON_OPERATOR_ADDONS_RESYNC")
	d.text(&s.Retry, "addons-retry", "5s..5m", "shortest and longest delay before a repository or an addon that could not be fetched is retried; if 0, it is retried after --addons-resync", "ADDON_OPERATOR_ADDONS_RETRY")
	d.text(&s.KnownHosts, "addons-known-hosts", "", "file with ssh host keys of git servers with addon repositories, in the format of ssh-keyscan; the keys of github.com, gitlab.com and bitbucket.org are built in", "ADDON_OPERATOR_ADDONS_KNOWN_HOSTS")
}

// check returns an error for the first invalid setting.
func (s *Addons) check() error {
	if !slices.Contains(addonsModes, s.Mode) {
		return Invalid("--addons must be one of %s (got %q)", strings.Join(addonsModes, ", "), s.Mode)
	}
	if s.Resync < 0 {
		return Invalid("--addons-resync must not be negative (got %s)", s.Resync)
	}
	if _, err := s.Delays(); err != nil {
		return Invalid("--addons-retry: %w", err)
	}
	if err := repository.CheckKnownHosts(s.KnownHosts); err != nil {
		return Invalid("--addons-known-hosts: %w", err)
	}
	return nil
}

// Delays returns the delays of retries.
func (s *Addons) Delays() (retry.Delays, error) {
	first, longest, err := retry.Parse(s.Retry)
	return retry.Delays{Resync: s.Resync, First: first, Longest: longest}, err
}
