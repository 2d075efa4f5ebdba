// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/owned"
	"github.com/lighterage/lighterage/controllers/pki"
)

// component is the value of agentpod.ComponentLabel.
const component = "queue"

// objectName is that of everything but the Service of clients. The UID keeps it from being the name of what is not
// ours: the Secret under this name is overwritten unseen, and a Queue recreated does not come upon the claims of the
// former.
func objectName(queue *v1alpha1.Queue) string {
	if queue.Spec.Storage.Adopt != "" {
		return queue.Spec.Storage.Adopt
	}
	return ownName(queue)
}

// ownName is objectName of a Queue that adopts no claims.
func ownName(queue *v1alpha1.Queue) string {
	uid := sha256.Sum256([]byte(queue.UID))
	return queue.Name + "-queue-" + hex.EncodeToString(uid[:4])
}

func selector(uid types.UID) map[string]string {
	return map[string]string{v1alpha1.QueueLabel: string(uid)}
}

func labels(uid types.UID) map[string]string {
	return agentpod.Labels(component, v1alpha1.QueueLabel, uid)
}

// serverNames are those of the members' certificate: for the manager, for clients, who dial the Service, for each
// other, and for Queues of other clusters, each of which has a name of its own.
func serverNames(queue *v1alpha1.Queue) []string {
	client := queue.Name + "." + queue.Namespace
	return []string{
		pki.QueueServerName(string(queue.UID)), client, client + ".svc", client + ".svc.cluster.local",
		"*." + objectName(queue) + "." + queue.Namespace + ".svc", "*." + pki.ChannelDomain(queue.Namespace, queue.Name),
	}
}

// Objects are what is to exist, the Secret excepted, in the order in which it is made. present is the StatefulSet that
// there is, nil if none. affinity is that of the members.
func (w Wanted) Objects(present *appsv1.StatefulSet, affinity *corev1.Affinity, image agentpod.Image) []client.Object {
	return []client.Object{w.service(), w.membersService(), w.budget(), w.statefulSet(present, affinity, image)}
}

func (w Wanted) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: w.Queue.Namespace, Labels: labels(w.Queue.UID),
		OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference(kind, w.Queue)},
	}
}

func servicePort(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)}
}

func (w Wanted) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: w.meta(w.Queue.Name),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector(w.Queue.UID),
			Ports: []corev1.ServicePort{
				servicePort("nats", clientPort), servicePort("service", messagesPort), servicePort("channel", channelPort),
			},
		},
	}
}

// membersService gives members names. They have to find each other before any of them is ready.
func (w Wanted) membersService() *corev1.Service {
	port := servicePort("routes", routePort)
	if w.Queue.Spec.Engine.External != nil {
		port = servicePort("nats", clientPort) // they only have to have names
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: w.meta(objectName(w.Queue)),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Selector: selector(w.Queue.UID),
			PublishNotReadyAddresses: true, Ports: []corev1.ServicePort{port},
		},
	}
}

func (w Wanted) budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: w.meta(objectName(w.Queue)),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector(w.Queue.UID)},
			// A member that is not ready serves nobody, and must not keep its node from being drained.
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

func (w Wanted) statefulSet(
	present *appsv1.StatefulSet, affinity *corev1.Affinity, image agentpod.Image,
) *appsv1.StatefulSet {
	meta := w.meta(objectName(w.Queue))
	meta.Annotations = owned.GenerationOf(w.Queue)
	maps.Copy(meta.Annotations, w.record)
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas:    ptr.To(memberCount(w.Queue.Spec)),
			Selector:    &metav1.LabelSelector{MatchLabels: selector(w.Queue.UID)},
			ServiceName: objectName(w.Queue),
			// A member is ready when most are there, so they cannot wait for each other.
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			RevisionHistoryLimit: ptr.To[int32](2),
			// No messages go with a StatefulSet that somebody deleted, not even with a Queue that is kept because of
			// them.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: labels(w.Queue.UID), Annotations: map[string]string{startAnnotation: w.startDigest()},
				},
				Spec: w.pod(affinity, image),
			},
		},
	}
	if w.Queue.Spec.Storage.Type == v1alpha1.QueueStorageMemory || w.Queue.Spec.Engine.External != nil {
		return set
	}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{w.claim()}
	if present != nil {
		// A template of claims cannot be changed; claims that are there grow by themselves.
		set.Spec.VolumeClaimTemplates[0].Spec.Resources = claimResources(
			present, set.Spec.VolumeClaimTemplates[0].Spec.Resources,
		)
	}
	return set
}

func claimResources(
	present *appsv1.StatefulSet, wanted corev1.VolumeResourceRequirements,
) corev1.VolumeResourceRequirements {
	for _, template := range present.Spec.VolumeClaimTemplates {
		if template.Name == dataVolume {
			return template.Spec.Resources
		}
	}
	return wanted
}

// claim of a member. Nothing owns it: whatever deletes what a Queue owns, such as a deletion in the foreground, must
// not delete messages before the Queue may go.
func (w Wanted) claim() corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: dataVolume, Labels: labels(w.Queue.UID)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: w.Queue.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: w.Queue.Spec.Storage.Size},
			},
		},
	}
}

// memberNumber is how a member's name and that of its claim end.
var memberNumber = regexp.MustCompile(`^(0|[1-9][0-9]?)$`)

// ownClaims are those that the StatefulSet made for members. They have no owner, and whoever may make claims can give
// one the Queue's labels; the name has a hash of the UID in it, which the API server chose after any claim of a user's
// was named.
func ownClaims(queue *v1alpha1.Queue, labelled []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	return slices.DeleteFunc(labelled, func(claim corev1.PersistentVolumeClaim) bool {
		number, ok := strings.CutPrefix(claim.Name, dataVolume+"-"+objectName(queue)+"-")
		return !ok || !memberNumber.MatchString(number)
	})
}
