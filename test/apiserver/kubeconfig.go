// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Token is what a kubelet would mount into a pod of the ServiceAccount.
func Token(ctx context.Context, admin client.Client, namespace, serviceAccount string) (string, error) {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceAccount}}
	var request authenticationv1.TokenRequest
	if err := admin.SubResource("token").Create(ctx, sa, &request); err != nil {
		return "", fmt.Errorf("request a token of %s: %w", serviceAccount, err)
	}
	return request.Status.Token, nil
}

// WriteKubeconfig makes a file in the folder dir by which the config's API server is reached, and returns its path. With a token
// that is all the file has to show, else it has the config's own certificate.
func WriteKubeconfig(dir string, config *rest.Config, token string) (string, error) {
	user := &clientcmdapi.AuthInfo{Token: token}
	if token == "" {
		user.ClientCertificateData, user.ClientKeyData = config.CertData, config.KeyData
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["test"] = user
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	f, err := os.CreateTemp(dir, "kubeconfig-")
	if err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return f.Name(), errors.Join(f.Close(), clientcmd.WriteToFile(*c, f.Name()))
}
