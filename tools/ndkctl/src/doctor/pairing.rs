//! A client and a server, and what will be between them.

use std::collections::BTreeMap;

use super::{
    inputs::{
        Machine, NetRoute, SmbClientNetworkInterface, SmbMultichannelConnection, SmbMultichannelConstraint,
        SmbServerNetworkInterface, Unknown,
    },
    predict::{Interface, Prediction, predict},
};

/// The interfaces of both machines.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) client: Vec<Interface>,
    pub(crate) server: Vec<Interface>,
}

/// A client and the server that it names.
pub(crate) struct Pairing<'a> {
    pub(crate) name: &'a str,
    pub(crate) client: &'a Machine,
    /// The server's own recording.
    pub(crate) server: Option<&'a Machine>,
    found: Result<(Sides, Prediction), Unknown>,
}

impl<'a> Pairing<'a> {
    pub(crate) fn new(name: &'a str, client: &'a Machine, server: Option<&'a Machine>) -> Self {
        let mut pairing = Self { name, client, server, found: Err(Unknown(String::new())) };
        pairing.found = match server.filter(|server| server.is_windows()) {
            Some(server) => pairing.by_interfaces(server),
            None => pairing.by_rows(),
        };
        pairing
    }

    /// Whether this is the server's name.
    pub(crate) fn is_server(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name)
    }

    pub(crate) fn sides(&self) -> Result<&Sides, Unknown> {
        self.found.as_ref().map(|(sides, _)| sides).map_err(Clone::clone)
    }

    pub(crate) fn prediction(&self) -> Result<&Prediction, Unknown> {
        self.found.as_ref().map(|(_, prediction)| prediction).map_err(Clone::clone)
    }

    /// The pairs that Windows has made for this server itself.
    pub(crate) fn rows(&self) -> Result<Vec<SmbMultichannelConnection>, Unknown> {
        let mut rows: Vec<SmbMultichannelConnection> = self.client.all()?;
        rows.retain(|row| self.is_server(&row.server_name));
        Ok(rows)
    }

    /// By what both machines have.
    fn by_interfaces(&self, server: &Machine) -> Result<(Sides, Prediction), Unknown> {
        let routes: Vec<NetRoute> = self.client.all()?;
        let mut constraints: Vec<SmbMultichannelConstraint> = self.client.all()?;
        constraints.retain(|constraint| self.is_server(&constraint.server_name));
        let may_use =
            |index| constraints.is_empty() || constraints.iter().any(|constraint| constraint.interface_index == index);
        let client = self.client.all()?.into_iter().map(|found: SmbClientNetworkInterface| Interface {
            index: found.interface_index,
            name: found.friendly_name,
            rdma: found.rdma_capable,
            rss: found.rss_capable,
            speed: found.link_speed,
            addresses: found.ip_addresses,
        });
        let client: Vec<_> = client.filter(|interface| may_use(interface.index)).collect();
        let mut listed: Vec<SmbServerNetworkInterface> = server.all()?;
        // Of a cluster the scope `*` has all.
        if listed.iter().any(|found| found.scope_name == "*") {
            listed.retain(|found| found.scope_name == "*");
        }
        let mut interfaces = BTreeMap::new();
        for found in listed {
            let interface = interfaces.entry(found.interface_index).or_insert_with(|| Interface {
                index: found.interface_index,
                name: found.friendly_name,
                rdma: found.rdma_capable,
                rss: found.rss_capable,
                speed: found.link_speed,
                addresses: Vec::new(),
            });
            add(&mut interface.addresses, found.ip_address);
        }
        let server = interfaces.into_values().collect::<Vec<_>>();
        let reaches =
            |index, address| routes.iter().any(|route| route.interface_index == index && route.leads_to(address));
        let prediction = predict(&client, &server, reaches);
        Ok((Sides { client, server }, prediction))
    }

    /// By the pairs that Windows has made. A pair that can do RDMA is there twice: once for RDMA, once for TCP (step 5).
    fn by_rows(&self) -> Result<(Sides, Prediction), Unknown> {
        let rows = self.rows()?;
        if rows.is_empty() {
            let name = self.name;
            return Err(Unknown(format!(
                "which interfaces {name} has: Get-SmbMultichannelConnection lists no pair with it. Open \\\\{name}\\SHARE, copy a large file, \
                 and ask again; if there is none then, {name} does not do SMB Multichannel (ksmbd: server multi channel support = yes)"
            )));
        }
        let (mut client, mut server) = (BTreeMap::new(), BTreeMap::new());
        for row in &rows {
            let near = client.entry(row.client_interface_index).or_insert_with(|| {
                empty(row.client_interface_index, &row.client_interface_friendly_name, row.client_link_speed)
            });
            near.rdma |= row.client_rdma_capable;
            near.rss |= row.client_rss_capable;
            add(&mut near.addresses, row.client_ip_address);
            let index = row.server_interface_index;
            let far = server
                .entry(index)
                .or_insert_with(|| empty(index, &format!("interface {index}"), row.server_link_speed));
            far.rdma |= row.server_rdma_capable;
            far.rss |= row.server_rss_capable;
            add(&mut far.addresses, row.server_ip_address);
        }
        let sides = Sides { client: client.into_values().collect(), server: server.into_values().collect() };
        let reaches = |index, address| {
            rows.iter().any(|row| row.client_interface_index == index && row.server_ip_address == address)
        };
        let prediction = predict(&sides.client, &sides.server, reaches);
        Ok((sides, prediction))
    }
}

fn empty(index: u32, name: &str, speed: u64) -> Interface {
    Interface { index, name: name.to_owned(), rdma: false, rss: false, speed, addresses: Vec::new() }
}

fn add<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if !list.contains(&new) {
        list.push(new);
    }
}
