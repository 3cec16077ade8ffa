//! What we know of the region's balancers: one snapshot that serves every object, so that a reconcile with nothing
//! to do asks AWS nothing. It is read anew in batches every sweep; our own changes are entered as they are made.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use tokio::sync::{Notify, watch};

use super::ownership::{Owner, object_of};
use crate::external::aws::AwsError;
use crate::external::elbv2::{Balancer, Elbv2, NewBalancer, Pairs, State};

/// Reads lag behind writes: what we created and no read has shown is not believed gone before this.
const READ_LAG: Duration = Duration::from_mins(1);

/// An object as (namespace, name).
pub type ObjectKey = (String, String);

/// A balancer with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The balancer.
    pub balancer: Balancer,
    /// Its tags.
    pub tags: Pairs,
    /// Its attributes, where somebody asked for them.
    pub attributes: Option<Pairs>,
}

/// The snapshot.
pub struct Fleet {
    elb: Elbv2,
    cluster: String,
    known: Mutex<Known>,
    loaded: watch::Sender<Option<Result<(), AwsError>>>,
    /// Wakes the poll of provisioning balancers.
    pub(super) provisioning_began: Notify,
}

#[derive(Default)]
struct Known {
    members: HashMap<String, Entry>,
    /// Names for which the outcome of a call is not known, and since when.
    doubtful: HashMap<String, Instant>,
    /// ARNs that an object claims although their tags deny it: these may be put back.
    disowned: BTreeSet<String>,
    subscribers: Vec<UnboundedSender<ObjectKey>>,
}

struct Entry {
    member: Member,
    /// When we last changed it.
    written: Option<Instant>,
    /// A read has shown it: from then on its absence means that it is gone.
    seen: bool,
}

impl Known {
    /// Wakes objects; a subscriber that hung up is forgotten.
    fn wake(&mut self, objects: BTreeSet<ObjectKey>) {
        for key in objects {
            self.subscribers.retain(|subscriber| subscriber.unbounded_send(key.clone()).is_ok());
        }
    }
}

impl Fleet {
    /// Knows nothing yet.
    pub fn new(elb: Elbv2, cluster: String) -> Self {
        Self {
            elb,
            cluster,
            known: Mutex::default(),
            loaded: watch::Sender::new(None),
            provisioning_began: Notify::new(),
        }
    }

    /// Name of the Kubernetes cluster in ownership tags.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Objects whose balancers changed behind their back, from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<ObjectKey> {
        let (sender, receiver) = unbounded();
        self.known().subscribers.push(sender);
        receiver
    }

    /// Waits until the region has been read once; fails with the reason why it could not be read.
    pub async fn ready(&self) -> Result<(), AwsError> {
        let mut loaded = self.loaded.subscribe();
        match loaded.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            // The sender lives in `self`.
            Err(_) => Ok(()),
        }
    }

    /// Waits until the region can be read after it could not.
    pub async fn recovered(&self) {
        let mut loaded = self.loaded.subscribe();
        // Neither wait can fail: the sender lives in `self`.
        let _ = loaded.wait_for(|loaded| matches!(loaded, Some(Err(_)))).await;
        let _ = loaded.wait_for(|loaded| matches!(loaded, Some(Ok(())))).await;
    }

    /// Every balancer that belongs to the owner, by name.
    pub fn owned_by(&self, owner: &Owner) -> Vec<Member> {
        let known = self.known();
        let members = known.members.values().map(|entry| &entry.member).filter(|member| owner.owns(&member.tags));
        let mut members: Vec<Member> = members.cloned().collect();
        members.sort_by(|a, b| a.balancer.name.cmp(&b.balancer.name));
        members
    }

    /// The balancer with that ARN.
    pub fn get(&self, arn: &str) -> Option<Member> {
        self.known().members.get(arn).map(|entry| entry.member.clone())
    }

    /// Whether a balancer with that ARN exists and is not the owner's; if so, from now on its tags are read in every sweep.
    pub fn disowned(&self, owner: &Owner, arn: &str) -> bool {
        let mut known = self.known();
        let disowned = known.members.get(arn).is_some_and(|entry| !owner.owns(&entry.member.tags));
        if disowned {
            known.disowned.insert(arn.to_owned());
        } else {
            known.disowned.remove(arn);
        }
        disowned
    }

    /// Which of these names are taken, by anybody.
    pub fn taken(&self, names: &[String]) -> BTreeSet<String> {
        let known = self.known();
        let taken = known.members.values().map(|entry| &entry.member.balancer.name);
        taken.filter(|name| names.contains(name)).cloned().collect()
    }

    /// Finds out what became of calls on these names whose outcome is not known. That nothing has a name is believed
    /// only when the doubt is older than `patience`.
    pub async fn settle_doubts(&self, names: &[String], patience: Duration) -> Result<(), AwsError> {
        let since = |name: &String| self.known().doubtful.get(name).map(|since| (name.clone(), *since));
        let doubtful: Vec<(String, Instant)> = names.iter().filter_map(since).collect();
        for (name, since) in doubtful {
            let found = match self.elb.named(&name).await? {
                Some(balancer) => Some(self.with_tags(balancer).await?),
                None if since.elapsed() < patience => {
                    let unknown = format!("whether load balancer {name} was created is not known yet");
                    return Err(AwsError::raced("DescribeLoadBalancers", unknown));
                }
                None => None,
            };
            let mut known = self.known();
            known.doubtful.remove(&name);
            known.members.retain(|_, entry| entry.member.balancer.name != name);
            if let Some(member) = found {
                known.members.insert(member.balancer.arn.clone(), Entry { member, written: None, seen: true });
            }
        }
        Ok(())
    }

    async fn with_tags(&self, balancer: Balancer) -> Result<Member, AwsError> {
        let mut tags = self.elb.tags(std::slice::from_ref(&balancer.arn)).await?;
        match tags.remove(&balancer.arn) {
            Some(tags) => Ok(Member { balancer, tags, attributes: None }),
            // Reads lag behind writes. A balancer without tags would count as somebody else's, so look again.
            None => Err(AwsError::raced("DescribeTags", format!("{} is not to be seen yet", balancer.name))),
        }
    }

    /// Reads a balancer's attributes if that has not been done yet; from then on every sweep does.
    pub async fn want_attributes(&self, arn: &str) -> Result<(), AwsError> {
        if self.get(arn).is_none_or(|member| member.attributes.is_some()) {
            return Ok(());
        }
        let attributes = self.elb.attributes(arn).await?;
        self.edit(arn, |member| member.attributes = Some(attributes));
        Ok(())
    }

    /// Creates a balancer, and checks whose the one is that AWS answers with.
    pub async fn create(&self, new: &NewBalancer) -> Result<(), AwsError> {
        // Whatever happens from here on: unless it is entered below, nobody knows what has that name.
        self.known().doubtful.insert(new.name.clone(), Instant::now());
        match self.elb.create(new).await {
            Ok(balancer) => {
                let member = self.with_tags(balancer).await?;
                let foreign = member.tags != new.tags;
                let mut known = self.known();
                known.doubtful.remove(&new.name);
                let arn = member.balancer.arn.clone();
                known.members.insert(arn, Entry { member, written: Some(Instant::now()), seen: false });
                drop(known);
                self.provisioning_began.notify_one();
                if foreign {
                    let there = format!("a load balancer {} of the same settings was there before", new.name);
                    return Err(AwsError::raced("CreateLoadBalancer", there));
                }
                Ok(())
            }
            Err(error) => {
                // Taken by something that we have not seen: that stays in doubt until it is looked at.
                if !error.ambiguous && !error.is("DuplicateLoadBalancerName") {
                    self.known().doubtful.remove(&new.name);
                }
                Err(error)
            }
        }
    }

    /// Deletes a balancer if AWS still says that it belongs to the owner.
    pub async fn delete(&self, owner: &Owner, arn: &str) -> Result<(), AwsError> {
        let tags = self.elb.tags(&[arn.to_owned()]).await?;
        match tags.get(arn) {
            Some(tags) if owner.owns(tags) => self.elb.delete(arn).await?,
            Some(tags) => {
                let tags = tags.clone();
                self.edit(arn, |member| member.tags = tags);
                return Err(AwsError::raced("DeleteLoadBalancer", "it is no longer tagged as ours".into()));
            }
            None => {}
        }
        self.known().members.remove(arn);
        Ok(())
    }

    /// Moves a balancer into these subnets.
    pub async fn set_subnets(&self, arn: &str, subnets: &BTreeSet<String>) -> Result<(), AwsError> {
        let done = self.elb.set_subnets(arn, subnets).await;
        self.entered(arn, done, |member| member.balancer.subnets.clone_from(subnets))
    }

    /// Gives a balancer these security groups.
    pub async fn set_security_groups(&self, arn: &str, groups: &BTreeSet<String>) -> Result<(), AwsError> {
        let done = self.elb.set_security_groups(arn, groups).await;
        self.entered(arn, done, |member| member.balancer.security_groups.clone_from(groups))
    }

    /// Sets attributes of a balancer.
    pub async fn set_attributes(&self, arn: &str, attributes: &Pairs) -> Result<(), AwsError> {
        let done = self.elb.set_attributes(arn, attributes).await;
        self.entered(arn, done, |member| {
            member.attributes.get_or_insert_default().extend(attributes.clone());
        })
    }

    /// Adds or changes tags of a balancer.
    pub async fn add_tags(&self, arn: &str, tags: &Pairs) -> Result<(), AwsError> {
        let done = self.elb.add_tags(arn, tags).await;
        self.entered(arn, done, |member| member.tags.extend(tags.clone()))
    }

    /// Removes tags of a balancer.
    pub async fn remove_tags(&self, arn: &str, keys: &BTreeSet<String>) -> Result<(), AwsError> {
        let done = self.elb.remove_tags(arn, keys).await;
        self.entered(arn, done, |member| member.tags.retain(|key, _| !keys.contains(key)))
    }

    /// Enters a change of ours, or puts the balancer in doubt where its outcome is not known.
    fn entered(&self, arn: &str, done: Result<(), AwsError>, change: impl FnOnce(&mut Member)) -> Result<(), AwsError> {
        match &done {
            Ok(()) => self.edit(arn, change),
            // One that is gone is found to be so by looking at its name again.
            Err(error) if error.ambiguous || error.is("LoadBalancerNotFound") => {
                let mut known = self.known();
                if let Some(name) = known.members.get(arn).map(|entry| entry.member.balancer.name.clone()) {
                    known.doubtful.insert(name, Instant::now());
                }
            }
            Err(_) => {}
        }
        done
    }

    fn edit(&self, arn: &str, change: impl FnOnce(&mut Member)) {
        if let Some(entry) = self.known().members.get_mut(arn) {
            change(&mut entry.member);
            entry.written = Some(Instant::now());
        }
    }

    /// Reads the whole region and wakes the objects whose balancers are not as they were.
    pub async fn sweep(&self) -> Result<(), AwsError> {
        let outcome = self.read_region().await;
        self.loaded.send_if_modified(|loaded| {
            // Once loaded it stays so: an old snapshot serves better than none.
            let better = !matches!(loaded, Some(Ok(())));
            if better {
                *loaded = Some(outcome.clone());
            }
            better
        });
        outcome
    }

    async fn read_region(&self) -> Result<(), AwsError> {
        let begun = Instant::now();
        let balancers = self.elb.all().await?;
        let unknown_or_ours = |arn: &String| {
            let known = self.known();
            let ours = |entry: &Entry| object_of(&self.cluster, &entry.member.tags).is_some();
            known.disowned.contains(arn) || known.members.get(arn).is_none_or(ours)
        };
        // What belongs to others is not ours later: their tags are read once.
        let arns: Vec<String> = balancers.iter().map(|b| b.arn.clone()).filter(unknown_or_ours).collect();
        let mut tags = self.elb.tags(&arns).await?;
        let mut attributes = self.read_attributes(&balancers).await;
        let mut known = self.known();
        let mut changed: Vec<(Option<Member>, Option<Member>)> = Vec::new();
        let mut seen = BTreeSet::new();
        for balancer in balancers {
            let arn = balancer.arn.clone();
            seen.insert(arn.clone());
            // What was written since the sweep began is newer than what the sweep read.
            if let Some(entry) = known.members.get_mut(&arn)
                && entry.written.is_some_and(|written| written > begun)
            {
                entry.seen = true;
                continue;
            }
            let before = known.members.get(&arn);
            let tags = tags.remove(&arn).or_else(|| before.map(|entry| entry.member.tags.clone())).unwrap_or_default();
            let member = Member { balancer, tags, attributes: attributes.remove(&arn) };
            let before = before.map(|entry| entry.member.clone());
            if before.as_ref() != Some(&member) {
                changed.push((before, Some(member.clone())));
            }
            let written = known.members.get(&arn).and_then(|entry| entry.written);
            known.members.insert(arn, Entry { member, written, seen: true });
        }
        known.members.retain(|arn, entry| {
            let lagging = !entry.seen && entry.written.is_some_and(|written| written.elapsed() < READ_LAG);
            let stays = seen.contains(arn) || lagging;
            if !stays {
                changed.push((Some(entry.member.clone()), None));
            }
            stays
        });
        let woken = changed.iter().flat_map(|(before, after)| [before, after]).flatten();
        let woken: BTreeSet<ObjectKey> = woken.filter_map(|member| object_of(&self.cluster, &member.tags)).collect();
        known.wake(woken);
        Ok(())
    }

    /// The attributes of those balancers for which somebody wants them. What cannot be read stays as it was: it must
    /// not keep the other balancers from being looked at.
    async fn read_attributes(&self, balancers: &[Balancer]) -> HashMap<String, Pairs> {
        let mut attributes = HashMap::new();
        for arn in balancers.iter().map(|balancer| &balancer.arn) {
            let Some(before) = self.get(arn).and_then(|member| member.attributes) else { continue };
            let read = self.elb.attributes(arn).await.unwrap_or_else(|error| {
                tracing::warn!(arn, %error, "attributes could not be read in this sweep");
                before
            });
            attributes.insert(arn.clone(), read);
        }
        attributes
    }

    /// Looks at our balancers that are being set up; true while there are any.
    pub async fn poll_provisioning(&self) -> Result<bool, AwsError> {
        let arns = self.provisioning();
        if arns.is_empty() {
            return Ok(false);
        }
        let mut woken = BTreeSet::new();
        for balancer in self.elb.described(&arns).await? {
            let mut known = self.known();
            let Some(entry) = known.members.get_mut(&balancer.arn) else { continue };
            entry.seen = true;
            if entry.member.balancer.state != balancer.state {
                entry.member.balancer.state = balancer.state;
                woken.extend(object_of(&self.cluster, &entry.member.tags));
            }
        }
        let mut known = self.known();
        known.wake(woken);
        drop(known);
        Ok(!self.provisioning().is_empty())
    }

    fn provisioning(&self) -> Vec<String> {
        let known = self.known();
        let ours = known.members.values().map(|entry| &entry.member).filter(|member| {
            member.balancer.state == State::Provisioning && object_of(&self.cluster, &member.tags).is_some()
        });
        ours.map(|member| member.balancer.arn.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
