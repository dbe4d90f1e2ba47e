// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// RedisMode says how the servers of a Redis make up one.
// +kubebuilder:validation:Enum=Standalone
type RedisMode string

// RedisStandalone is one server, or whatever answers like one at a single address.
const RedisStandalone RedisMode = "Standalone"

// The keys of a Secret that are read where a reference names none. Those for TLS are the keys of Secrets of the type kubernetes.io/tls.
const (
	DefaultPasswordKey    = "password"
	DefaultCAKey          = "ca.crt"
	DefaultCertificateKey = "tls.crt"
	DefaultPrivateKeyKey  = "tls.key"
)

// Redis says where a Redis is, who to be there, and how to make sure that it is the right one.
//
// +kubebuilder:validation:XValidation:rule="size(self.addresses) == 1",message="mode Standalone takes exactly one address",fieldPath=".addresses"
type Redis struct {
	// mode is what kind of Redis it is: Standalone (default), one server at a single address.
	// +optional
	// +kubebuilder:default=Standalone
	Mode RedisMode `json:"mode,omitempty"`

	// addresses is the server as host:port, an IPv6 address in brackets. Without a scheme and without a path. Exactly one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=261
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9._])?|\\\\[[0-9A-Fa-f:.]+\\\\]):[0-9]{1,5}$') && int(self.substring(self.lastIndexOf(':') + 1)) >= 1 && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",message="must be host:port, such as redis.example.svc:6379, without a scheme or path"
	Addresses []string `json:"addresses"`

	// database is the number of the database that holds the keys. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Database int32 `json:"database,omitempty"`

	// auth says who to sign in as. Without it the operator signs in as nobody, which Redis takes for the user default.
	// +optional
	Auth *RedisAuth `json:"auth,omitempty"`

	// tls has the connections encrypted. {} is enough for a server whose certificate is from an authority that the operator's system trusts.
	// Without a value after it the API server drops it, and nothing is encrypted.
	// +optional
	TLS *RedisTLS `json:"tls,omitempty"`
}

// RedisAuth says who to sign in as.
//
// +kubebuilder:validation:XValidation:rule="has(self.username) || has(self.passwordSecretRef)",message="a username or a passwordSecretRef is required"
type RedisAuth struct {
	// username is the ACL user. Without one it is the user default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[^\s\x00-\x1f\x7f]+$`
	Username string `json:"username,omitempty"`

	// passwordSecretRef names the password: by default the key password of the Secret.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`
}

// RedisTLS says how to make sure that a server is the right one, and how it may tell that of the operator.
//
// +kubebuilder:validation:XValidation:rule="has(self.certSecretRef) == has(self.keySecretRef)",message="certSecretRef and keySecretRef go together: give both or neither"
type RedisTLS struct {
	// caSecretRef names the certificates, in PEM, of the authorities that may vouch for the server, instead of those that the operator's system
	// trusts: by default the key ca.crt of the Secret.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`

	// certSecretRef names the certificate, in PEM, that the operator shows to the server: by default the key tls.crt of the Secret.
	// +optional
	CertSecretRef *SecretKeyReference `json:"certSecretRef,omitempty"`

	// keySecretRef names the private key, in PEM, of that certificate: by default the key tls.key of the Secret.
	// +optional
	KeySecretRef *SecretKeyReference `json:"keySecretRef,omitempty"`

	// serverName is the name that the server's certificate has to be for, and that the server is called by. Default is the host of the address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?$`
	ServerName string `json:"serverName,omitempty"`

	// insecureSkipVerify takes any certificate for that of the server, so that anybody on the way can read and change what is said, the
	// password among it. The operator does so only if it was started with --allow-insecure-redis-tls. Default false.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// SecretKeyReference names a value of a Secret in the namespace of the ScaledJob.
type SecretKeyReference struct {
	// name is that of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key is the key within the Secret. Its default depends on what is named.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}
