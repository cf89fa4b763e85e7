package settings

import (
	"fmt"
	"strings"
	"time"

	"addon-operator/internal/webhook"
)

// Webhooks are the settings of admission and conversion webhooks.
type Webhooks struct {
	ConfigurationName     string
	URL                   string
	CertLifetime          time.Duration
	HooksAtOnce           int
	Admission, Conversion WebhookSide
}

// A WebhookSide configures one of the two webhook servers: for admission or for conversion.
type WebhookSide struct {
	ServiceName           string
	Cert, Key, CA         string
	ClientCAs             []string
	ListenAddress         string
	ListenPort            int
	flagPrefix, mountedAt string
}

// declare declares the flags of s.
func (s *Webhooks) declare(d *declarations) {
	d.text(&s.ConfigurationName, "validating-webhook-configuration-name", "addon-operator",
		"names of the webhook configurations, without their suffix -hooks", both("VALIDATING_WEBHOOK_CONFIGURATION_NAME")...)
	d.text(&s.URL, "webhook-url", "", "URL that the API server calls instead of the Services: https://HOST or https://HOST:PORT", "ADDON_OPERATOR_WEBHOOK_URL")
	d.duration(&s.CertLifetime, "webhook-cert-lifetime", 90*24*time.Hour, "validity of a CA that the operator makes; it is replaced after half of this time", "ADDON_OPERATOR_WEBHOOK_CERT_LIFETIME")
	d.number(&s.HooksAtOnce, "webhook-hooks-at-once", 10, "maximum number of hooks that answer the API server in parallel", "ADDON_OPERATOR_WEBHOOK_HOOKS_AT_ONCE")
	for _, side := range []struct {
		*WebhookSide
		prefix, whose, service, mounted string
		port                            int
	}{
		{&s.Admission, "validating-webhook", "admission", "addon-operator-admission", "/validating-certs", 9680},
		{&s.Conversion, "conversion-webhook", "conversion", "addon-operator-conversion", "/conversion-certs", 9681},
	} {
		side.flagPrefix, side.mountedAt = side.prefix, side.mounted
		env := func(name string) []string {
			return both(strings.ToUpper(strings.ReplaceAll(side.prefix, "-", "_")) + "_" + name)
		}
		file := func(p *string, name, variable, what, base string) {
			d.text(p, side.prefix+"-"+name, "", fmt.Sprintf("%s for %s; if empty, %s/%s, or one that the operator makes",
				what, side.whose, side.mounted, base), env(variable)...)
		}
		d.text(&side.ServiceName, side.prefix+"-service-name", side.service, "Service for "+side.whose, env("SERVICE_NAME")...)
		file(&side.Cert, "server-cert", "SERVER_CERT", "file of the certificate", "tls.crt")
		file(&side.Key, "server-key", "SERVER_KEY", "file of the private key", "tls.key")
		file(&side.CA, "ca", "CA", "file of the CA certificate", "ca.crt")
		d.list(&side.ClientCAs, side.prefix+"-client-ca", "files of CA certificates for clients of "+side.whose+"; if empty, clients need no certificate",
			env("CLIENT_CA")...)
		d.text(&side.ListenAddress, side.prefix+"-listen-address", "0.0.0.0", "address to listen on for "+side.whose, env("LISTEN_ADDRESS")...)
		d.number(&side.ListenPort, side.prefix+"-listen-port", side.port, "port to listen on for "+side.whose+"; 0 is any free port", env("LISTEN_PORT")...)
	}
}

// both returns the names of two environment variables: name with the prefix ADDON_OPERATOR_, and name itself.
func both(name string) []string { return []string{"ADDON_OPERATOR_" + name, name} }

// Side returns the options of the webhook server.
func (s WebhookSide) Side() webhook.Side {
	out := webhook.Side{Address: s.ListenAddress, Port: s.ListenPort, Service: s.ServiceName, ClientCAs: s.ClientCAs}
	if s.Cert == "" && s.Key == "" && s.CA == "" {
		out.Files = webhook.FilesIn(s.mountedAt)
		return out
	}
	or := func(file, base string) string {
		if file == "" {
			file = s.mountedAt + "/" + base
		}
		return file
	}
	out.Files = webhook.Files{Certificate: or(s.Cert, "tls.crt"), Key: or(s.Key, "tls.key"), CA: or(s.CA, "ca.crt")}
	return out
}

// check returns an error for the first invalid setting.
func (s *Webhooks) check() error {
	usage := func(flag string, err error) error {
		if err == nil {
			return nil
		}
		return Invalid("--%s: %w", flag, err)
	}
	if s.HooksAtOnce < 1 {
		return usage("webhook-hooks-at-once", fmt.Errorf("must be at least 1 (got %d)", s.HooksAtOnce))
	}
	if s.ConfigurationName == "" {
		return usage("validating-webhook-configuration-name", fmt.Errorf("must not be empty"))
	}
	if err := usage("webhook-url", webhook.CheckURL(s.URL)); err != nil {
		return err
	}
	if err := usage("webhook-cert-lifetime", webhook.CheckLifetime(s.CertLifetime)); err != nil {
		return err
	}
	for _, side := range []WebhookSide{s.Admission, s.Conversion} {
		if err := usage(side.flagPrefix+"-server-cert", side.Side().CheckFiles()); err != nil {
			return err
		}
		if err := usage(side.flagPrefix+"-client-ca", side.Side().CheckClients()); err != nil {
			return err
		}
	}
	return nil
}
