package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// createServiceAccountKey returns a new RSA key, in PEM format, for signing service account tokens. The caller stores
// the key, so that tokens stay valid after a restart.
func createServiceAccountKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// createTokens returns the content of a token file, with a new token for the only user, a cluster administrator. The
// file has the format of the API server's --token-auth-file: token, user, uid, groups.
func createTokens() ([]byte, error) {
	return []byte(rand.Text() + ",admin,admin,system:masters\n"), nil
}

// token returns the token of the first user in a token file.
func token(tokens []byte) (string, error) {
	token, _, found := strings.Cut(string(tokens), ",")
	if !found || token == "" {
		return "", fmt.Errorf("no token in it: remove the file, and the next start makes a new one")
	}
	return token, nil
}

// kubeconfig returns a kubeconfig file for the API server at address. ca is the certificate that signed the server's
// certificate, and token is the token of the administrator.
func kubeconfig(address string, ca []byte, token string) ([]byte, error) {
	const name = "local"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: "https://" + address, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: "admin"}},
		CurrentContext: name,
	})
}
