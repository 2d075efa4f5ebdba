// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// maxCAFile and maxTokenFile bound what is read of files, in bytes. The system's CAs are some 250 KiB.
	maxCAFile    = 4 << 20
	maxTokenFile = 4 << 10
)

// security is how the service and the client authenticate: the client by the token, or by the certificate in the
// configuration.
func (q *queue) security(ctx context.Context) (*tls.Config, string, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.serverName}
	var err error
	if config.RootCAs, err = q.roots(ctx); err != nil {
		return nil, "", err
	}
	switch {
	case config.ServerName != "":
	case q.server != "":
		config.ServerName, _, _ = net.SplitHostPort(q.server) // it was checked
	default:
		found, err := q.object(ctx)
		if err != nil {
			return nil, "", err
		}
		config.ServerName = found.Name + "." + found.Namespace + ".svc"
	}
	if q.clientCertificateFile != "" {
		certificate, err := tls.LoadX509KeyPair(q.clientCertificateFile, q.clientKeyFile)
		if err != nil {
			return nil, "", fmt.Errorf("reading the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
		return config, "", nil
	}
	token, err := q.token(ctx)
	return config, token, err
}

// roots are the CAs of the service.
func (q *queue) roots(ctx context.Context) (*x509.CertPool, error) {
	if q.caFile != "" {
		bundle, err := readBounded(q.caFile, maxCAFile)
		if err != nil {
			return nil, fmt.Errorf("reading --ca-file: %w", err)
		}
		return pool(bundle, "--ca-file "+q.caFile)
	}
	found, err := q.object(ctx)
	if err != nil {
		return nil, err
	}
	const instead = "give the CA with --ca-file"
	if found.Spec.TLS != nil {
		name := found.Spec.TLS.SecretName
		secret, err := q.secret(ctx, name, "its certificate", instead)
		if err != nil {
			return nil, err
		}
		if bundle := secret.Data[corev1.ServiceAccountRootCAKey]; len(bundle) > 0 {
			return pool(bundle, fmt.Sprintf("%s of Secret %q", corev1.ServiceAccountRootCAKey, name))
		}
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf(
				"there is no %[2]s in Secret %[1]q, and the system's CAs cannot be read; %[3]s: %[4]w", name,
				corev1.ServiceAccountRootCAKey, instead, err,
			)
		}
		return system, nil
	}
	// All who may read in the namespace of the Queue can read the copy there. Only one that the Queue controls counts.
	var public corev1.ConfigMap
	key := client.ObjectKey{Namespace: found.Namespace, Name: pki.QueueCAName(found.Name)}
	err = q.cluster.Get(ctx, key, &public)
	if err == nil && metav1.IsControlledBy(&public, found) {
		return pool([]byte(public.Data[pki.CAKey]), fmt.Sprintf("%s of ConfigMap %s", pki.CAKey, key))
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	key = client.ObjectKey{Namespace: q.operatorNamespace, Name: pki.CAName}
	public = corev1.ConfigMap{}
	err = q.cluster.Get(ctx, key, &public)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf(
			"there is no ConfigMap %q in namespace %q, which has the CA of the Queue's certificate; name the operator's "+
				"namespace with --operator-namespace, or %s",
			key.Name, key.Namespace, instead,
		)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read ConfigMap %q in namespace %q, which has the CA of the Queue's "+
			"certificate, and ConfigMap %q in namespace %q does not exist or you may not read it; ask for a Role with the "+
			"verb get on one of them, or for its %s and %s: %w",
			key.Name, key.Namespace, pki.QueueCAName(found.Name), found.Namespace, pki.CAKey, instead, err)
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	return pool([]byte(public.Data[pki.CAKey]), fmt.Sprintf("%s of ConfigMap %s", pki.CAKey, key))
}

func pool(bundle []byte, where string) (*x509.CertPool, error) {
	certificates := x509.NewCertPool()
	if !certificates.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s has no CA certificate in PEM; give one with --ca-file", where)
	}
	return certificates, nil
}

// token authenticates at the service.
func (q *queue) token(ctx context.Context) (string, error) {
	if q.tokenFile != "" {
		content, err := readBounded(q.tokenFile, maxTokenFile)
		if err != nil {
			return "", fmt.Errorf("reading --token-file: %w", err)
		}
		return checkToken(content, "--token-file "+q.tokenFile)
	}
	found, err := q.object(ctx)
	if err != nil {
		return "", err
	}
	if found.Spec.Authentication.Tokens == nil {
		return "", fmt.Errorf(
			"the Queue %s/%s accepts client certificates only; give one with --client-certificate and --client-key",
			found.Namespace, found.Name,
		)
	}
	name := found.Spec.Authentication.Tokens.SecretName
	secret, err := q.secret(ctx, name, "the tokens of its clients", "give a token with --token-file")
	if err != nil {
		return "", err
	}
	names := slices.Sorted(maps.Keys(secret.Data))
	chosen := q.tokenName
	switch {
	case len(names) == 0:
		return "", fmt.Errorf(
			"there is no token in Secret %q; add one for each client, with the name of the client as its key", name,
		)
	case chosen == "" && len(names) > 1:
		return "", fmt.Errorf(
			"there are several tokens in Secret %q; choose one with --token-name: %s", name, strings.Join(names, ", "),
		)
	case chosen == "":
		chosen = names[0]
	case secret.Data[chosen] == nil:
		return "", fmt.Errorf("there is no token %q in Secret %q; choose one of: %s", chosen, name, strings.Join(names, ", "))
	}
	return checkToken(secret.Data[chosen], fmt.Sprintf("token %q of Secret %q", chosen, name))
}

// checkToken says what is wrong with a token, and never what it is.
func checkToken(content []byte, where string) (string, error) {
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("%s is empty", where)
	}
	for _, c := range []byte(token) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%s has characters that a header cannot have; use printable ASCII", where)
		}
	}
	return token, nil
}

// readBounded reads a file that is not longer than limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the user's own choice
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written to it
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return content, nil
}
