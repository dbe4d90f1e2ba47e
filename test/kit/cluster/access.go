// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

// access is what the API server is reached and trusted by: its port, the keys
// and certificates, the administrator's token, each in a file of the sandbox.
type access struct {
	host            string
	port            int
	token           string
	certificate     []byte // of the server, and of the authority it is signed by
	certificateFile string
	keyFile         string
	tokenFile       string
	accountKeyFile  string // signs ServiceAccount tokens
	kubeconfig      string
}

func newAccess(box *sandbox.Sandbox, host string) (*access, error) {
	port, err := box.Port()
	if err != nil {
		return nil, err
	}
	a := &access{
		host:            host,
		port:            port,
		token:           rand.Text(),
		certificateFile: filepath.Join(box.Dir(), "apiserver.crt"),
		keyFile:         filepath.Join(box.Dir(), "apiserver.key"),
		tokenFile:       filepath.Join(box.Dir(), "tokens.csv"),
		accountKeyFile:  filepath.Join(box.Dir(), "service-accounts.key"),
		kubeconfig:      filepath.Join(box.Dir(), "kubeconfig"),
	}
	if err := a.writeFiles(); err != nil {
		return nil, fmt.Errorf("writing keys and tokens: %w", err)
	}
	return a, nil
}

func (a *access) writeFiles() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey(a.host, []net.IP{net.ParseIP(serviceAddress)}, nil)
	if err != nil {
		return err
	}
	a.certificate = certificate
	accountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		a.certificateFile: certificate,
		a.keyFile:         key,
		a.accountKeyFile:  accountKey,
		a.tokenFile:       []byte(a.token + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return WriteKubeconfig(a.config(), a.kubeconfig)
}

// WriteKubeconfig writes a kubeconfig file with the address and the credentials of a client configuration.
func WriteKubeconfig(from *rest.Config, path string) error {
	const name = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthorityData: from.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: from.BearerToken, ClientCertificateData: from.CertData, ClientKeyData: from.KeyData,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

func (a *access) url() string {
	return "https://" + net.JoinHostPort(a.host, strconv.Itoa(a.port))
}

func (a *access) config() *rest.Config {
	return &rest.Config{
		Host:            a.url(),
		BearerToken:     a.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.certificate},
		QPS:             -1,
	}
}
