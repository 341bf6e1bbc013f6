// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	containerName = "proxy"
	// seedDir is where cloud-init's NoCloud source looks.
	seedDir = "/var/lib/cloud/seed/nocloud"
	authDir = "/etc/proxy-operator/auth"
	// grace is longer than the forward proxy gives its open tunnels.
	grace = 10
	// lowPorts is below which a process needs a right, or this allowance of its network namespace.
	lowPorts = 1024
)

// The keys of an instance's Secret.
const (
	keyUserData = "user-data"
	keyMetaData = "meta-data"
	keyUsername = "username"
	keyPassword = "password"
)

// buildPod is the pod of a request. own is the image of the operator, which runs as the forward proxy where the request
// names none. Whatever the request says, the pod keeps to the Pod Security Standard "restricted" and gets no token.
func buildPod(account, own string, req providers.CreateRequest) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta(account, req),
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{container(own, req)},
			Volumes:                       volumes(req),
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To[int64](grace),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
	if req.Port < lowPorts {
		pod.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: strconv.Itoa(int(req.Port))}}
	}
	if s := req.Pod; s != nil {
		pod.Spec.NodeSelector, pod.Spec.Tolerations, pod.Spec.Affinity = s.NodeSelector, s.Tolerations, s.Affinity
		pod.Spec.TopologySpreadConstraints, pod.Spec.ImagePullSecrets = s.TopologySpreadConstraints, s.ImagePullSecrets
		pod.Spec.ServiceAccountName = s.ServiceAccountName
	}
	return pod
}

func container(own string, req providers.CreateRequest) corev1.Container {
	c := corev1.Container{
		Name:      containerName,
		Image:     req.Image,
		Ports:     []corev1.ContainerPort{{Name: containerName, ContainerPort: req.Port, Protocol: corev1.ProtocolTCP}},
		Resources: resources(req.Pod),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), RunAsNonRoot: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(req.Port)}},
			PeriodSeconds: 5, TimeoutSeconds: 3, FailureThreshold: 3,
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}, {Name: "seed", MountPath: seedDir, ReadOnly: true}},
	}
	if req.Pod != nil {
		c.ImagePullPolicy = req.Pod.ImagePullPolicy
	}
	if req.Username != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "auth", MountPath: authDir, ReadOnly: true})
	}
	if req.Image != "" {
		return c
	}
	if c.ImagePullPolicy == "" { // for a tag like latest the API server would choose Always, whatever the node has
		c.ImagePullPolicy = corev1.PullIfNotPresent
	}
	c.Image, c.Args = own, []string{"forward-proxy", fmt.Sprintf("--listen=:%d", req.Port), "--deny-local"}
	if req.Username != "" {
		c.Args = append(c.Args, "--auth-dir="+authDir)
	}
	return c
}

// resources adds small requests where the request says nothing: a pod without any is the first to be evicted.
func resources(pod *providers.Pod) corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	if pod != nil {
		r = *pod.Resources.DeepCopy()
	}
	requests := corev1.ResourceList{}
	maps.Copy(requests, r.Requests)
	for name, amount := range map[corev1.ResourceName]string{corev1.ResourceCPU: "10m", corev1.ResourceMemory: "32Mi"} {
		_, requested := requests[name]
		_, limited := r.Limits[name]
		if !requested && !limited { // the API server requests what is limited
			requests[name] = resource.MustParse(amount)
		}
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
	return r
}

func volumes(req providers.CreateRequest) []corev1.Volume {
	secret := func(volume string, keys ...string) corev1.Volume {
		s := &corev1.SecretVolumeSource{SecretName: req.Name, DefaultMode: ptr.To[int32](0o444)} // any user of an image may be the one
		for _, k := range keys {
			s.Items = append(s.Items, corev1.KeyToPath{Key: k, Path: k})
		}
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: s}}
	}
	v := []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(64<<20, resource.BinarySI)}}},
		secret("seed", keyUserData, keyMetaData),
	}
	if req.Username != "" {
		v = append(v, secret("auth", keyUsername, keyPassword))
	}
	return v
}

// buildSecret is the Secret of a request, owned by its pod.
func buildSecret(account string, req providers.CreateRequest, pod *corev1.Pod) *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta(account, req),
		Type:       corev1.SecretTypeOpaque,
		Immutable:  ptr.To(true), // the kubelet needn't watch it
		Data: map[string][]byte{
			keyUserData: []byte(req.UserData),
			keyMetaData: []byte("instance-id: " + req.Name + "\nlocal-hostname: " + req.Name + "\n"),
		},
	}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	if req.Username != "" {
		s.Data[keyUsername], s.Data[keyPassword] = []byte(req.Username), []byte(req.Password)
	}
	return s
}
